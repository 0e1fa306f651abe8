// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Members of _meta that carry a trace (2026-07-28, basic, "_meta").
const (
	traceParent = "traceparent"
	traceState  = "tracestate"
	baggage     = "baggage"
)

// maxTrace limits one value in bytes: what W3C Baggage requires to be propagated, and
// far more than Trace Context requires. It keeps a client from flooding the system that
// observes the server.
const maxTrace = 8192

// DropInvalidTraces makes the edit omit what validTraceMeta omits. It must be applied
// before other edits of _meta.
func DropInvalidTraces(e *mcp.Edit, params *mcp.Object) {
	meta := params.Raw(mcp.FieldMeta)
	if traced := validTraceMeta(meta); len(traced) < len(meta) {
		e.Set(mcp.FieldMeta, traced)
	}
}

// validTraceMeta returns a request's _meta without invalid trace values: "When present,
// their values MUST follow W3C Trace Context and W3C Baggage formats respectively"
// (2026-07-28, basic, "_meta"). An invalid value is omitted, and the request continues
// without a trace. All else is unmodified. If nothing is omitted, it returns meta
// itself.
func validTraceMeta(meta []byte) []byte {
	if !mayTrace(meta) {
		return meta
	}
	parent := false
	for name, value := range jsonscan.Members(meta) {
		parent = parent || name == traceParent && isTrace(value, isTraceParent)
	}
	return jsonscan.RewriteMembers(meta, func(name string, value []byte) []byte {
		keep := true
		switch name {
		case traceParent:
			keep = parent
		case traceState:
			// tracestate has no meaning without traceparent.
			keep = parent && isTrace(value, isTraceState)
		case baggage:
			keep = isTrace(value, isBaggage)
		}
		if !keep {
			return nil
		}
		return value
	})
}

// mayTrace reports whether meta may contain trace members: it contains one of their
// names, or an escape sequence.
func mayTrace(meta []byte) bool {
	return bytes.Contains(meta, []byte("trace")) || bytes.Contains(meta, []byte(baggage)) || bytes.IndexByte(meta, '\\') >= 0
}

// isTrace reports whether a JSON value is a string that has the format.
func isTrace(value []byte, has func(string) bool) bool {
	if len(value) == 0 || value[0] != '"' {
		return false
	}
	var text string
	return json.Unmarshal(value, &text) == nil && len(text) <= maxTrace && has(text)
}

// isTraceParent implements W3C Trace Context, "traceparent Header". Later versions may
// append fields to those of the first.
func isTraceParent(s string) bool {
	const length = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(s) < length {
		return false
	}
	version, id, parent, flags := s[:2], s[3:35], s[36:52], s[53:55]
	if s[2] != '-' || s[35] != '-' || s[52] != '-' || !isHex(version+id+parent+flags) {
		return false
	}
	if version == "ff" || strings.Trim(id, "0") == "" || strings.Trim(parent, "0") == "" {
		return false
	}
	return len(s) == length || version != "00" && s[length] == '-' && isPrintable(s[length:])
}

func isHex(s string) bool { return isOf(s, "0123456789abcdef") }

func isOf(s, set string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(set, r) })
}

func isPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

const (
	digits  = "0123456789"
	lowers  = "abcdefghijklmnopqrstuvwxyz"
	letters = lowers + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	tchars  = digits + letters + "!#$%&'*+-.^_`|~"
)

// isTraceState implements W3C Trace Context, "tracestate Header": at most 32 members
// with distinct keys. Members may be empty.
func isTraceState(s string) bool {
	seen := map[string]bool{}
	for i, member := range strings.Split(s, ",") {
		if member = strings.Trim(member, " \t"); member == "" {
			continue
		}
		key, value, ok := strings.Cut(member, "=")
		if !ok || i >= 32 || seen[key] || !isStateKey(key) || !isStateValue(value) {
			return false
		}
		seen[key] = true
	}
	return len(seen) > 0
}

func isStateKey(s string) bool {
	return s != "" && len(s) <= 256 && isOf(s[:1], lowers+digits) && isOf(s, lowers+digits+"_-*/@")
}

func isStateValue(s string) bool {
	return s != "" && len(s) <= 256 && isPrintable(s) && !strings.ContainsAny(s, ",=")
}

// isBaggage implements W3C Baggage, "Definition": members with a key, a value and
// optional properties.
func isBaggage(s string) bool {
	members := strings.Split(s, ",")
	if len(members) > 180 {
		return false
	}
	for _, member := range members {
		parts := strings.Split(member, ";")
		if !strings.Contains(parts[0], "=") {
			return false
		}
		for _, part := range parts {
			key, value, _ := strings.Cut(part, "=")
			if !isToken(strings.Trim(key, " \t")) || !isBaggageValue(strings.Trim(value, " \t")) {
				return false
			}
		}
	}
	return true
}

// isToken implements RFC 9110, section 5.6.2.
func isToken(s string) bool { return s != "" && isOf(s, tchars) }

func isBaggageValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r > '~' || r == '"' || r == ',' || r == ';' || r == '\\'
	})
}
