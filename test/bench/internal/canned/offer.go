// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package canned

import (
	"fmt"
	"net/url"
	"strconv"
	"sync"
)

// Setup says what a backend is like. As a query, it stands in a backend's URL:
// several of one process differ by it.
type Setup struct {
	// Era is the only one that it speaks; empty is both.
	Era Era
	// Tools is how many it lists; zero is ten.
	Tools int
	// Page is how many stand on one page of the list; zero is all.
	Page int
	// Name tells backends apart that are alike.
	Name string
}

// Query is the query that says so.
func (s Setup) Query() string {
	v := url.Values{}
	v.Set("era", string(s.Era))
	v.Set("tools", strconv.Itoa(s.Tools))
	v.Set("page", strconv.Itoa(s.Page))
	v.Set("name", s.Name)
	return v.Encode()
}

// ParseSetup reverses Query. What is missing is zero.
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

// defaultTools is how many tools a backend has that was not told.
const defaultTools = 10

// offer is all that one backend can answer. It does not change, and may be used
// concurrently.
type offer struct {
	setup    Setup
	methods  map[string]*answer        // by method, what does not depend on the params
	pages    map[string]*answer        // tools/list by cursor; "" is the first
	calls    map[string]func() *answer // tools/call by name
	noTool   *answer
	noMethod *answer
	noPage   *answer
}

// library has the answers of tools, which all backends of a process share: some are
// large. Each is made when it is first given out. The zero library is empty.
type library struct {
	mu    sync.Mutex
	calls map[string]func() *answer
}

// call returns what makes the answer of a tool, once.
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

// find is the answer to a request. The second value is false where there is none
// but a refusal.
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
