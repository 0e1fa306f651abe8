// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package canned

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// ask sends a message to a backend and returns the response.
func ask(t *testing.T, s *Server, setup Setup, header http.Header, body string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp?"+setup.Query(), strings.NewReader(body))
	r.Header = header
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

func modernHeader() http.Header { return http.Header{"Mcp-Protocol-Version": {ModernVersion}} }

// result returns the result of a response.
func result(t *testing.T, id string, text []byte) map[string]json.RawMessage {
	t.Helper()
	var m struct {
		ID     json.RawMessage            `json:"id"`
		Result map[string]json.RawMessage `json:"result"`
		Error  json.RawMessage            `json:"error"`
	}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if string(m.ID) != id || m.Error != nil {
		t.Fatalf("id %s and error %s, want %s and none", m.ID, m.Error, id)
	}
	return m.Result
}

func read(t *testing.T, r *http.Response) []byte {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if n := r.Header.Get("Content-Length"); n != "" && n != fmt.Sprint(len(b)) {
		t.Errorf("%d bytes with the length %s", len(b), n)
	}
	return b
}

func TestCallAnswersWithTheTextOfItsSize(t *testing.T) {
	s := NewServer(slog.New(slog.DiscardHandler))
	for _, size := range []int{100, 1 << 10, 10 << 10, 100 << 10, 1 << 20} {
		for _, modern := range []bool{false, true} {
			h := http.Header{}
			if modern {
				h = modernHeader()
			}
			tool := fmt.Sprintf("text_%d", size)
			got := result(t, `"i"`, read(t, ask(t, s, Setup{}, h, fmt.Sprintf(`{"id":"i","method":"tools/call","params":{"name":%q}}`, tool))))
			var content []struct{ Text string }
			if err := json.Unmarshal(got["content"], &content); err != nil {
				t.Fatal(err)
			}
			if content[0].Text != PlainText(size) {
				t.Errorf("%s: another text than PlainText", tool)
			}
			if n := len(Text(size)); n != size {
				t.Errorf("the text of %d bytes has %d on the wire", size, n)
			}
			if has := got["resultType"] != nil; has != modern {
				t.Errorf("%s: modern is %v, and has a resultType: %v", tool, modern, has)
			}
		}
	}
	if n := s.Refused(); n != 0 {
		t.Errorf("%d refused", n)
	}
}

func TestListPages(t *testing.T) {
	s := NewServer(slog.New(slog.DiscardHandler))
	setup := Setup{Tools: 25, Page: 10}
	seen := make(map[string]bool)
	cursor := ""
	for pages := 1; ; pages++ {
		got := result(t, "1", read(t, ask(t, s, setup, modernHeader(), fmt.Sprintf(`{"id":1,"method":"tools/list","params":{"cursor":%q}}`, cursor))))
		var tools []struct{ Name string }
		if err := json.Unmarshal(got["tools"], &tools); err != nil {
			t.Fatal(err)
		}
		for _, tool := range tools {
			seen[tool.Name] = true
		}
		cursor = strings.Trim(string(got["nextCursor"]), `"`)
		if cursor == "" {
			if pages != 3 || len(seen) != 25 {
				t.Errorf("%d tools on %d pages, want 25 on 3", len(seen), pages)
			}
			return
		}
	}
}

func TestEachEraHasItsHandshakeAlone(t *testing.T) {
	tests := []struct {
		era                Era
		method             string
		status             int
		answered, sessions bool
	}{
		{Legacy, "initialize", 200, true, true},
		{Legacy, "server/discover", 400, false, false},
		{Modern, "initialize", 400, false, false},
		{Modern, "server/discover", 200, true, false},
		{"", "initialize", 200, true, true},
		{"", "server/discover", 200, true, false},
	}
	for _, tt := range tests {
		s := NewServer(slog.New(slog.DiscardHandler))
		h := http.Header{}
		if tt.method == "server/discover" {
			h = modernHeader()
		}
		r := ask(t, s, Setup{Era: tt.era}, h, fmt.Sprintf(`{"id":1,"method":%q}`, tt.method))
		if r.StatusCode != tt.status {
			t.Errorf("%q %s: status %d, want %d", tt.era, tt.method, r.StatusCode, tt.status)
		}
		if got := r.Header.Get("Mcp-Session-Id") != ""; got != tt.sessions {
			t.Errorf("%q %s: a session: %v, want %v", tt.era, tt.method, got, tt.sessions)
		}
		if got := bytes.Contains(read(t, r), []byte(`"result":`)); got != tt.answered {
			t.Errorf("%q %s: answered: %v, want %v", tt.era, tt.method, got, tt.answered)
		}
		if n := s.Refused(); n != 0 {
			t.Errorf("%q %s: %d refused, though a client of the other era is to be expected", tt.era, tt.method, n)
		}
	}
}

func TestStreamHasItsProgress(t *testing.T) {
	s := NewServer(slog.New(slog.DiscardHandler))
	for token, want := range map[string]int{`,"_meta":{"progressToken":"p"}`: 5, ``: 0} {
		r := ask(t, s, Setup{}, modernHeader(), `{"id":1,"method":"tools/call","params":{"name":"sse_5"`+token+`}}`)
		body := string(read(t, r))
		if got := strings.Count(body, `"progressToken":"p"`); got != want {
			t.Errorf("%d notifications for %q, want %d", got, token, want)
		}
		events := strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
		if len(events) != want+1 {
			t.Fatalf("%d events, want %d", len(events), want+1)
		}
		result(t, "1", []byte(strings.TrimPrefix(events[want], "data: ")))
	}
}

func TestUnexpectedIsRefusedAndLogged(t *testing.T) {
	for name, f := range map[string]func(s *Server) *http.Response{
		"a tool that is not there": func(s *Server) *http.Response {
			return ask(t, s, Setup{}, modernHeader(), `{"id":1,"method":"tools/call","params":{"name":"text_7"}}`)
		},
		"a cursor that is not there": func(s *Server) *http.Response {
			return ask(t, s, Setup{}, modernHeader(), `{"id":1,"method":"tools/list","params":{"cursor":"x"}}`)
		},
		"another method": func(s *Server) *http.Response {
			return ask(t, s, Setup{}, modernHeader(), `{"id":1,"method":"tools/guess"}`)
		},
		"no JSON": func(s *Server) *http.Response { return ask(t, s, Setup{}, modernHeader(), `hello`) },
		"another setup": func(s *Server) *http.Response {
			return ask(t, s, Setup{Era: "baroque"}, modernHeader(), `{"id":1,"method":"ping"}`)
		},
		"another verb": func(s *Server) *http.Response {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPut, "/mcp", nil))
			return w.Result()
		},
	} {
		s := NewServer(slog.New(slog.DiscardHandler))
		if r := f(s); r.StatusCode < 400 {
			t.Errorf("%s: status %d", name, r.StatusCode)
		}
		if n := s.Refused(); n != 1 {
			t.Errorf("%s: %d refused, want 1", name, n)
		}
	}
}

func TestSetupIsItsQuery(t *testing.T) {
	want := Setup{Era: Legacy, Tools: 12, Page: 5, Name: "b007"}
	got, err := ParseSetup(want.Query())
	if err != nil || got != want {
		t.Errorf("got %+v and %v, want %+v", got, err, want)
	}
	for _, query := range []string{"era=x", "tools=-1", "page=many", "%zz"} {
		if _, err := ParseSetup(query); err == nil {
			t.Errorf("%q: no error", query)
		}
	}
}

func TestStdio(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`
	in := `{"id":1,"method":"server/discover","params":{` + meta + `}}
{"method":"notifications/initialized"}
{"id":2,"method":"tools/call","params":{"name":"sse_5","_meta":{"progressToken":2}}}
{"id":3,"method":"tools/call","params":{"name":"text_100",` + meta + `}}
{"id":4,"method":"subscriptions/listen","params":{` + meta + `}}
`
	var out bytes.Buffer
	if err := ServeStdio(strings.NewReader(in), &out, Setup{}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != 1+5+1+1+1 {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	result(t, "1", []byte(lines[0]))
	if got := result(t, "2", []byte(lines[6])); got["resultType"] != nil {
		t.Error("an answer of the modern era to a legacy client")
	}
	if got := result(t, "3", []byte(lines[7])); got["resultType"] == nil {
		t.Error("an answer of the legacy era to a modern client")
	}
	if !json.Valid([]byte(lines[8])) || !strings.Contains(lines[8], "acknowledged") {
		t.Errorf("the answer to a listen: %s", lines[8])
	}
	if err := ServeStdio(strings.NewReader("hello\n"), &out, Setup{}); err == nil {
		t.Error("no error for what is no message")
	}
}
