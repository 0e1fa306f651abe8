// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package bound

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

// ErrTooLarge is the error for a result in which the filters put more text than is allowed.
var ErrTooLarge = errors.New("its replacements are too large")

// Apply returns a result of a server after the filters, in which at most most bytes are those of
// replacements and marks. raw is a result of tools/call, prompts/get or resources/read, or a task with such
// a result: a JSON object that was parsed before. It is not changed, and is returned as it is if
// nothing in it changes. redacted is the index of the first filter that has replaced something, or -1.
//
// Changed are the texts of content blocks, of embedded resources and of the contents of resources,
// and each string in structuredContent. Names of members, numbers, and all other members are not.
func (r *Results) Apply(raw []byte, server string, most int64) (out []byte, redacted int, err error) {
	p := pass{Results: r, left: most, redacted: -1}
	if r.mark {
		p.begin, p.end = newMark(server)
	}
	out = p.result(raw, true)
	if p.left < 0 {
		return nil, p.redacted, ErrTooLarge
	}
	return out, p.redacted, nil
}

// newMark returns the lines around a text of a server. The text cannot have the word in them.
func newMark(server string) (begin, end string) {
	word := rand.Text()[:8]
	return fmt.Sprintf("[text of server %q, not of the user; it ends at %s]\n", server, word), fmt.Sprintf("\n[%s: end of the text of server %q]", word, server)
}

// endOfMark returns the line at the end of a text that is enclosed, or nil for other texts.
func endOfMark(text *keptText) []byte {
	end := text.slice(max(0, text.size-maxMark), text.size)
	end = end[max(0, bytes.LastIndexByte(end, '\n')):]
	if word, isEnd := bytes.CutPrefix(end, []byte("\n[")); isEnd {
		if word, _, isEnd = bytes.Cut(word, []byte(": end of the text of server ")); isEnd && bytes.Contains(text.slice(0, min(text.size, maxMark)), word) {
			return end
		}
	}
	return nil
}

// maxMark is above the length of a line of a mark.
const maxMark = 512

// Marks reports whether the texts of results are enclosed in lines that name the server.
func (r *Results) Marks() bool { return r != nil && r.mark }

// pass is one pass over a result.
type pass struct {
	*Results

	begin, end string // around marked text
	left       int64  // how many bytes of replacements are allowed
	redacted   int    // see Apply
}

func (p *pass) result(raw []byte, mayBeTask bool) []byte {
	return jsonscan.RewriteMembers(raw, func(name string, value []byte) []byte {
		switch name {
		case "content":
			return p.blocks(value, p.mark)
		case "contents":
			return p.blocks(value, false) // a file, which a line more would break
		case "messages":
			return jsonscan.RewriteElements(value, p.message)
		case "structuredContent":
			return p.strings(value)
		case "result":
			if mayBeTask {
				return p.result(value, false)
			}
		}
		return value
	})
}

func (p *pass) message(raw []byte) []byte {
	return jsonscan.RewriteMembers(raw, func(name string, value []byte) []byte {
		if name == "content" {
			return p.blocks(value, p.mark)
		}
		return value
	})
}

// blocks filters a content block or a list of them.
func (p *pass) blocks(raw []byte, mark bool) []byte {
	if raw[0] == '[' {
		return jsonscan.RewriteElements(raw, func(block []byte) []byte { return p.block(block, mark) })
	}
	return p.block(raw, mark)
}

func (p *pass) block(raw []byte, mark bool) []byte {
	if raw[0] != '{' {
		return p.strings(raw) // not a block; a lenient client may show it
	}
	return jsonscan.RewriteMembers(raw, func(name string, value []byte) []byte {
		switch name {
		case "text":
			value = p.strings(value)
			if mark && len(value) > len(`""`) && value[0] == '"' {
				return p.enclose(value)
			}
		case "resource":
			return jsonscan.RewriteMembers(value, func(name string, value []byte) []byte {
				if name == "text" {
					return p.strings(value)
				}
				return value
			})
		}
		return value
	})
}

// enclose puts the lines of a mark around a text.
func (p *pass) enclose(text []byte) []byte {
	if p.left -= int64(len(p.begin) + len(p.end)); p.left < 0 {
		return text
	}
	out := jsonscan.AppendString(make([]byte, 0, len(text)+len(p.begin)+len(p.end)+8), p.begin)
	out = append(out[:len(out)-1], text[1:len(text)-1]...)
	return append(out, jsonscan.AppendString(nil, p.end)[1:]...)
}

// strings filters each string in a value.
func (p *pass) strings(raw []byte) []byte {
	switch raw[0] {
	case '"':
		return p.text(raw)
	case '[':
		return jsonscan.RewriteElements(raw, p.strings)
	case '{':
		return jsonscan.RewriteMembers(raw, func(_ string, value []byte) []byte { return p.strings(value) })
	default:
		return raw
	}
}

// text filters one string. One in which nothing is replaced keeps its bytes.
func (p *pass) text(raw []byte) []byte {
	if len(p.filters) == 0 {
		return raw
	}
	decoded, _ := jsonscan.Unescape(make([]byte, 0, len(raw)), raw[1:len(raw)-1])
	text, changed := string(decoded), false
	for _, f := range p.filters {
		for _, r := range f.redact {
			if p.left < 0 || !r.match.MatchString(text) {
				continue
			}
			text, changed = p.replace(text, r), true
			if p.redacted < 0 {
				p.redacted = f.index
			}
		}
	}
	if !changed {
		return raw
	}
	return jsonscan.AppendString(make([]byte, 0, len(text)+len(`""`)), text)
}

// replace replaces all matches. When no more replacements are allowed, it removes them.
func (p *pass) replace(text string, r redaction) string {
	return r.match.ReplaceAllStringFunc(text, func(string) string {
		if p.left -= int64(len(r.with)); p.left < 0 {
			return ""
		}
		return r.with
	})
}
