// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
)

// FirstID is the id in prepared requests. All ids have the same number of digits, so that
// one can replace another.
const FirstID = 1_000_000_000

// Target is the server of calls and how to call it.
type Target struct {
	URL   string
	Era   canned.Era
	Local string // local address; empty means any
	Token string // bearer token; empty means none
}

// modern reports whether the target is called without sessions.
func (t Target) modern() bool { return t.Era == canned.Modern }

// Call is a request that is made repeatedly.
type Call struct {
	Method string
	Name   string // of a tool; empty if the method has none
	Params string // members of params besides the name, without braces
	// Progress requests progress, with the id as token.
	Progress bool
}

// ToolCall returns a call of a tool with typical small arguments.
func ToolCall(name string, progress bool) Call {
	return Call{
		Method: "tools/call", Name: name, Progress: progress,
		Params: `"arguments":{"path":"/srv/signals","pattern":"points"}`,
	}
}

// WithText adds a text argument of the given size, in lines like those of a file.
func (c Call) WithText(size int) Call {
	const line = `All trains stop at danger, and wait there for the signalman.\n`
	text := strings.Repeat(line, size/len(line))
	c.Params = strings.TrimSuffix(c.Params, "}") + `,"text":"` + text + `"}`
	return c
}

// request has the bytes of a request, and the offsets of its id.
type request struct {
	bytes []byte
	ids   []int
}

// newRequest makes the POST of a call.
func newRequest(t Target, session string, call Call) (*request, error) {
	u, err := url.Parse(t.URL)
	if err != nil {
		return nil, err
	}
	body := Body(t.Era, call)
	var b bytes.Buffer
	writeHead(&b, "POST", u, t, session)
	if t.modern() {
		fmt.Fprintf(&b, "Mcp-Method: %s\r\n", call.Method)
		if call.Name != "" {
			fmt.Fprintf(&b, "Mcp-Name: %s\r\n", call.Name)
		}
	}
	fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return withIDs(b.Bytes(), b.Len()-len(body)), nil
}

// writeHead writes the request line and the header fields of all requests.
func writeHead(b *bytes.Buffer, method string, u *url.URL, t Target, session string) {
	fmt.Fprintf(b, "%s %s HTTP/1.1\r\nHost: %s\r\nAccept: application/json, text/event-stream\r\n", method, u.RequestURI(), u.Host)
	if t.Token != "" {
		fmt.Fprintf(b, "Authorization: Bearer %s\r\n", t.Token)
	}
	switch {
	case t.modern():
		fmt.Fprintf(b, "Mcp-Protocol-Version: %s\r\n", canned.ModernVersion)
	case session != "":
		fmt.Fprintf(b, "Mcp-Protocol-Version: %s\r\nMcp-Session-Id: %s\r\n", canned.LegacyVersion, session)
	}
}

// bare returns a request without a body: a GET or a DELETE.
func bare(method string, t Target, session string) ([]byte, error) {
	u, err := url.Parse(t.URL)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	writeHead(&b, method, u, t, session)
	b.WriteString("\r\n")
	return b.Bytes(), nil
}

// withIDs finds the offsets of the id, starting at from.
func withIDs(b []byte, from int) *request {
	r := &request{bytes: b}
	first := strconv.AppendInt(nil, FirstID, 10)
	for {
		n := bytes.Index(b[from:], first)
		if n < 0 {
			return r
		}
		r.ids = append(r.ids, from+n)
		from += n + len(first)
	}
}

// with returns the request with another id, valid until the next call.
func (r *request) with(digits []byte) []byte {
	for _, at := range r.ids {
		copy(r.bytes[at:], digits)
	}
	return r.bytes
}

// Body returns the message of a call, with FirstID.
func Body(era canned.Era, call Call) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"jsonrpc":"2.0","id":%d,"method":%q`, FirstID, call.Method)
	params := nonempty(nameMember(call.Name), call.Params, metaMember(era, call.Progress))
	if params != "" || era == canned.Modern {
		fmt.Fprintf(&b, `,"params":{%s}`, params)
	}
	b.WriteByte('}')
	return b.String()
}

func nameMember(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(`"name":%q`, name)
}

// metaMember returns the _meta member: for a modern server everything that the revision
// requires in each request.
func metaMember(era canned.Era, progress bool) string {
	token, rest := "", ""
	if progress {
		token = fmt.Sprintf(`"progressToken":%d`, FirstID)
	}
	if era == canned.Modern {
		rest = `"io.modelcontextprotocol/protocolVersion":"` + canned.ModernVersion +
			`","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}`
	}
	if members := nonempty(token, rest); members != "" {
		return `"_meta":{` + members + `}`
	}
	return ""
}

// nonempty joins the members that are not empty.
func nonempty(members ...string) string {
	var there []string
	for _, m := range members {
		if m != "" {
			there = append(there, m)
		}
	}
	return strings.Join(there, ",")
}

// notification returns the POST of a notification.
func notification(u *url.URL, t Target, session, method string) []byte {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","method":%q}`, method)
	var b bytes.Buffer
	writeHead(&b, "POST", u, t, session)
	fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return b.Bytes()
}

// hostOf returns the host and port of a URL.
func hostOf(rawURL string) (string, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", err
	}
	return u.Host, nil
}

// Host returns the host and port of the target.
func (t Target) Host() (string, error) { return hostOf(t.URL) }
