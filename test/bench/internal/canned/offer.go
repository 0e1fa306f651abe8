// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package canned

import (
	"fmt"
	"net/url"
	"strconv"
	"sync"
)

// Setup describes a backend. As a query in a backend's URL, it distinguishes several
// backends of one process.
type Setup struct {
	// Era is the only supported era; empty means both.
	Era Era
	// Tools is the number of listed tools; zero means ten.
	Tools int
	// Page is the number of tools on a page of the list; zero means all.
	Page int
	// Name distinguishes equal backends.
	Name string
}

// Query returns the setup as a query.
func (s Setup) Query() string {
	v := url.Values{}
	v.Set("era", string(s.Era))
	v.Set("tools", strconv.Itoa(s.Tools))
	v.Set("page", strconv.Itoa(s.Page))
	v.Set("name", s.Name)
	return v.Encode()
}

// ParseSetup reverses Query. Missing values are zero.
func ParseSetup(query string) (Setup, error) {
	v, err := url.ParseQuery(query)
	if err != nil {
		return Setup{}, err
	}
	s := Setup{Era: Era(v.Get("era")), Name: v.Get("name")}
	if s.Era != "" && s.Era != Legacy && s.Era != Modern {
		return Setup{}, fmt.Errorf("era %q is neither %s nor %s", s.Era, Legacy, Modern)
	}
	if s.Tools, err = count(v.Get("tools")); err != nil {
		return Setup{}, fmt.Errorf("tools: %w", err)
	}
	if s.Page, err = count(v.Get("page")); err != nil {
		return Setup{}, fmt.Errorf("page: %w", err)
	}
	return s, nil
}

func count(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err
}

// defaultTools is the default number of tools of a backend.
const defaultTools = 10

// offer has all responses of one backend. It is immutable, and may be used concurrently.
type offer struct {
	setup    Setup
	methods  map[string]*answer        // by method, independent of the params
	pages    map[string]*answer        // tools/list by cursor; "" is the first
	calls    map[string]func() *answer // tools/call by name
	noTool   *answer
	noMethod *answer
	noPage   *answer
}

// library has the responses of tools, which all backends of a process share because some
// are large. Each is made on first use. The zero library is empty.
type library struct {
	mu    sync.Mutex
	calls map[string]func() *answer
}

// call returns a function that makes the response of a tool once.
func (l *library) call(tool string) func() *answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = make(map[string]func() *answer)
	}
	if l.calls[tool] == nil {
		l.calls[tool] = sync.OnceValue(func() *answer { return callAnswer(tool) })
	}
	return l.calls[tool]
}

func newOffer(s Setup, l *library) *offer {
	if s.Tools == 0 {
		s.Tools = defaultTools
	}
	o := &offer{
		setup: s, methods: make(map[string]*answer), pages: make(map[string]*answer), calls: make(map[string]func() *answer),
		noTool:   errorAnswer(-32602, "no such tool at the canned backend"),
		noMethod: errorAnswer(-32601, "no such method at the canned backend"),
		noPage:   errorAnswer(-32602, "no such cursor at the canned backend"),
	}
	o.addMethods()
	names := ToolNames(s.Tools)
	for _, name := range names {
		o.calls[name] = l.call(name)
	}
	o.addPages(names)
	return o
}

func (o *offer) addMethods() {
	const capabilities = `"capabilities":{"tools":{"listChanged":true}}`
	const info = `"serverInfo":{"name":"canned","version":"1"}`
	if o.setup.Era != Modern {
		o.methods["initialize"] = resultAnswer(`"protocolVersion":"`+LegacyVersion+`",`+capabilities+`,`+info, false)
		o.methods["ping"] = resultAnswer("", false)
	}
	if o.setup.Era != Legacy {
		o.methods["server/discover"] = resultAnswer(`"supportedVersions":["`+ModernVersion+`"],`+capabilities+
			`,"_meta":{"io.modelcontextprotocol/`+info[1:]+`}`, true)
	}
}

func (o *offer) addPages(names []string) {
	size := o.setup.Page
	if size == 0 {
		size = max(1, len(names))
	}
	for at := 0; at == 0 || at < len(names); at += size {
		end, more := min(at+size, len(names)), ""
		if end < len(names) {
			more = strconv.Itoa(end)
		}
		cursor := ""
		if at > 0 {
			cursor = strconv.Itoa(at)
		}
		o.pages[cursor] = listAnswer(names[at:end], more)
	}
}

// find returns the response to a request. The second value is false for an error response.
func (o *offer) find(m *message) (*answer, bool) {
	switch string(m.method) {
	case "tools/call":
		if answer := o.calls[string(m.name)]; answer != nil {
			return answer(), true
		}
		return o.noTool, false
	case "tools/list":
		return known(o.pages, m.cursor, o.noPage)
	}
	return known(o.methods, m.method, o.noMethod)
}

func known(answers map[string]*answer, key []byte, refusal *answer) (*answer, bool) {
	if a := answers[string(key)]; a != nil {
		return a, true
	}
	return refusal, false
}
