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

// FirstID is the id that requests are made with. All ids have as many digits, so that
// one takes the place of another.
const FirstID = 1_000_000_000

// Target is what calls are made to, and how.
type Target struct {
	URL   string
	Era   canned.Era
	Local string // the address to connect from; empty for any
}

// modern reports whether the target is spoken to without sessions.
func (t Target) modern() bool { return t.Era == canned.Modern }

// Call is a request to be made over and over.
type Call struct {
	Method string
	Name   string // of a tool; empty where the method has none
	Params string // members of params besides the name, without braces
	// Progress asks for progress: with a token, which is the id.
	Progress bool
}

// ToolCall is a call of a tool with arguments such as a small call has.
func ToolCall(name string, progress bool) Call {
	return Call{
		Method: "tools/call", Name: name, Progress: progress,
		Params: `"arguments":{"path":"/srv/signals","pattern":"points"}`,
	}
}

// WithText adds an argument that is a text of so many bytes, in lines, as a file has them.
func (c Call) WithText(size int) Call {
	const line = `All trains stop at danger, and wait there for the signalman.\n`
	text := strings.Repeat(line, size/len(line))
	c.Params = strings.TrimSuffix(c.Params, "}") + `,"text":"` + text + `"}`
	return c
}

// request is the bytes of a request, and where in them its id stands.
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

// writeHead begins a request with the fields that all have.
func writeHead(b *bytes.Buffer, method string, u *url.URL, t Target, session string) {
	fmt.Fprintf(b, "%s %s HTTP/1.1\r\nHost: %s\r\nAccept: application/json, text/event-stream\r\n", method, u.RequestURI(), u.Host)
	switch {
	case t.modern():
		fmt.Fprintf(b, "Mcp-Protocol-Version: %s\r\n", canned.ModernVersion)
	case session != "":
		fmt.Fprintf(b, "Mcp-Protocol-Version: %s\r\nMcp-Session-Id: %s\r\n", canned.LegacyVersion, session)
	}
}

// bare is a request without a body: a GET or a DELETE.
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

// withIDs finds the places of the id from an offset on.
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

// with is the request with another id, which it has until it is given one more.
func (r *request) with(digits []byte) []byte {
	for _, at := range r.ids {
		copy(r.bytes[at:], digits)
	}
	return r.bytes
}

// Body is the message of a call, with FirstID.
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

// metaMember is what stands beside the parameters: for a modern server all that the
// revision wants of each request.
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

// nonempty joins members of an object, those that there are.
func nonempty(members ...string) string {
	var there []string
	for _, m := range members {
		if m != "" {
			there = append(there, m)
		}
	}
	return strings.Join(there, ",")
}

// notification is the POST of a notification, which has no id.
func notification(u *url.URL, t Target, session, method string) []byte {
	body := fmt.Sprintf(`{"jsonrpc":"2.0","method":%q}`, method)
	var b bytes.Buffer
	writeHead(&b, "POST", u, t, session)
	fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	return b.Bytes()
}

// hostOf is the host and port of a URL.
func hostOf(rawURL string) (string, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", err
	}
	return u.Host, nil
}

// Host is the host and port of the target.
func (t Target) Host() (string, error) { return hostOf(t.URL) }
