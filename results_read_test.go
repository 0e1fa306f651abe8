// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// A client with a limit of its own is known by the name that it declares, and reads pieces of that size.
func TestResultsOfAClient(t *testing.T) {
	g, _ := withBulk(t, func(cfg *config.Config) {
		cfg.Results.Max, cfg.Results.Clients = 0, map[string]int64{"codex": 8 << 10}
	})
	as := func(client string, req *mcp.Request) *mcp.Request {
		req.Client = &mcp.Peer{Version: mcp.V20260728, Info: []byte(`{"name":"` + client + `","version":"1"}`), Capabilities: []byte(`{}`)}
		return req
	}
	if got := answerTo(t, g, as("claude-code", callOf(t, nil, "bulk__get", `{}`))); len(got) < 100<<10 {
		t.Errorf("another client: %d bytes", len(got))
	}
	answer := answerTo(t, g, as("codex-mcp-client", callOf(t, nil, "bulk__get", `{}`)))
	id, at, ok := readAnswer(t, answer).rest()
	if !ok || len(answer) > 8<<10 {
		t.Fatalf("%d bytes", len(answer))
	}
	if got := answerTo(t, g, as("codex-mcp-client", readOf(t, nil, id, at))); len(got) > 8<<10 || len(got) < 4<<10 {
		t.Errorf("a piece has %d bytes", len(got))
	}
}

// The result of a task is cut in each form in which a client can get it, and is kept once however often it is
// asked for.
func TestResultOfTaskIsCut(t *testing.T) {
	for _, method := range []string{"tasks/get", "tasks/result"} {
		g, b := withBulk(t, nil)
		b.results["get"] = textResult(manyLines(50 << 10))
		ann := person("ann", "")
		started := answerTo(t, g, requestOf(t, ann, "tools/call", `{"name":"bulk__get","arguments":{},"task":{}}`))
		_, task, _ := strings.Cut(started, `"taskId":"`)
		task, _, _ = strings.Cut(task, `"`)
		var a *cutAnswer
		for range 3 {
			answer := answerTo(t, g, requestOf(t, ann, method, `{"taskId":"`+task+`"}`))
			if a = readAnswer(t, answer); len(answer) > 17<<10 || method == "tasks/get" && !strings.Contains(answer, `"status":"completed"`) {
				t.Fatalf("%s: %d bytes", method, len(answer))
			}
		}
		id, at, ok := a.rest()
		whole := a.text()
		for ok {
			piece := readAnswer(t, answerTo(t, g, readOf(t, ann, id, at)))
			whole += piece.text()
			_, at, ok = piece.rest()
		}
		if whole != manyLines(50<<10) {
			t.Errorf("%s: %d bytes", method, len(whole))
		}
		if s := g.Status().Results; s.Kept != 1 || s.Cut != 3 {
			t.Errorf("%s: %+v", method, s)
		}
		// Of a tool with an output schema it is whole.
		started = answerTo(t, g, requestOf(t, ann, "tools/call", `{"name":"bulk__typed","arguments":{},"task":{}}`))
		_, task, _ = strings.Cut(started, `"taskId":"`)
		task, _, _ = strings.Cut(task, `"`)
		if got := answerTo(t, g, requestOf(t, ann, method, `{"taskId":"`+task+`"}`)); len(got) < 100<<10 {
			t.Errorf("%s of typed: %d bytes", method, len(got))
		}
	}
}

// A filter with a mark is for each part of a result, however it was called and read: each text is between two lines, and what
// is between them is together the text of the server.
func TestPartsOfAResultAreMarked(t *testing.T) {
	mark := regexp.MustCompile(`(?s)\A\[text of server "bulk", not of the user; it ends at (\w{8})\]\n(.*)\n\[(\w{8}): end of the text of server "bulk"\]\z`)
	endOfWhole := regexp.MustCompile(`\n\[\w{8}: end of the text of server "bulk"\]\z`)
	g, b := withBulk(t, func(cfg *config.Config) {
		cfg.Filters = []config.Filter{{On: []string{"bulk__get"}, In: config.FilterResults, Mark: config.MarkUntrusted}}
	})
	text := manyLines(60 << 10)
	b.results["get"] = textResult(text)
	ann := person("ann", "")
	ask := func(profile, method, params string) string {
		req := requestOf(t, ann, method, params)
		req.Profile = profile
		return answerTo(t, g, req)
	}
	started := ask("", "tools/call", `{"name":"bulk__get","arguments":{},"task":{}}`)
	_, task, _ := strings.Cut(started, `"taskId":"`)
	task, _, _ = strings.Cut(task, `"`)
	words := make(map[string]bool)
	for profile, answers := range map[string][]string{
		"":       {ask("", "tools/call", `{"name":"bulk__get","arguments":{}}`), ask("", "tasks/result", `{"taskId":"`+task+`"}`)},
		"search": {ask("search", "tools/call", `{"name":"call_tool","arguments":{"name":"bulk__get"}}`)},
	} {
		for _, answer := range answers {
			var whole strings.Builder
			for more := true; more; {
				a := readAnswer(t, answer)
				for _, block := range a.Content {
					switch m := mark.FindStringSubmatch(block.Text); {
					case block.Type != "text" || strings.HasPrefix(block.Text, "[This is "):
					case m == nil || m[1] != m[3] || words[m[1]]:
						t.Fatalf("profile %q: %.100s ... %s", profile, block.Text, block.Text[max(0, len(block.Text)-100):])
					default:
						words[m[1]] = true
						whole.WriteString(m[2])
					}
				}
				if len(answer) > 17<<10 {
					t.Errorf("profile %q: %d bytes", profile, len(answer))
				}
				var id string
				var at int
				if id, at, more = a.rest(); more {
					answer = ask(profile, "tools/call", fmt.Sprintf(`{"name":"read_result","arguments":{"id":%q,"offset":%d}}`, id, at))
				}
			}
			if got := endOfWhole.ReplaceAllString(whole.String(), ""); got != text {
				t.Errorf("profile %q: %d bytes of %d", profile, len(got), len(text))
			}
		}
	}
	if len(words) < 3*4 {
		t.Errorf("%d parts", len(words))
	}
	// Another tool has no such filter.
	if got := ask("", "tools/call", `{"name":"bulk__typed","arguments":{}}`); strings.Contains(got, "not of the user") {
		t.Errorf("%.300s", got)
	}
}

// With structured: cut a tool has no output schema for clients, so that its results can be cut and small ones stay as they are.
// Otherwise an operator can see that the limit has no effect for it.
func TestResultsOfTypedTools(t *testing.T) {
	const small = `{"content":[{"type":"text","text":"a"}],"structuredContent":{"text":"a"},"resultType":"complete"}`
	for structured, want := range map[string]struct {
		isCut, isUntyped bool
		whole            int
		why              string
	}{
		config.StructuredPass:  {false, false, 1, "its results are not cut, because it has an output schema (results.structured)"},
		config.StructuredError: {false, false, 0, "results over 16 KiB are an error, because it has an output schema (results.structured)"},
		config.StructuredCut:   {true, true, 0, "listed without its output schema, so that results over 16 KiB can be cut"},
	} {
		g, b := withBulk(t, func(cfg *config.Config) { cfg.Results.Structured = structured })
		list := answerTo(t, g, requestOf(t, nil, "tools/list", `{}`))
		if strings.Contains(list, "outputSchema") == want.isUntyped || !strings.Contains(list, `"name":"bulk__typed","inputSchema":{"type":"object"}`) {
			t.Errorf("%s: listed %s", structured, list)
		}
		ann := person("ann", "")
		started := answerTo(t, g, requestOf(t, ann, "tools/call", `{"name":"bulk__typed","arguments":{},"task":{}}`))
		_, task, _ := strings.Cut(started, `"taskId":"`)
		task, _, _ = strings.Cut(task, `"`)
		for _, answer := range []string{answerTo(t, g, callOf(t, ann, "bulk__typed", `{}`)), answerTo(t, g, requestOf(t, ann, "tasks/result", `{"taskId":"`+task+`"}`))} {
			a := readAnswer(t, answer)
			if isCut := len(answer) < 17<<10 && a.StructuredContent == nil && !a.IsError; isCut != want.isCut {
				t.Errorf("%s: %d bytes", structured, len(answer))
			}
		}
		b.results["typed"] = small
		if got := answerTo(t, g, callOf(t, nil, "bulk__typed", `{}`)); got != small {
			t.Errorf("%s: a small result is %s", structured, got)
		}
		if s := g.Status(); s.Results.Whole != want.whole {
			t.Errorf("%s: %d tools with whole results", structured, s.Results.Whole)
		}
		for tool, want := range map[string]string{"bulk__typed": want.why, "bulk__get": "results over 16 KiB are cut"} {
			var steps []string
			for _, s := range g.Explain(tool, "").Items[0].Chain {
				steps = append(steps, s.Text)
			}
			if !slices.Contains(steps, want) {
				t.Errorf("%s: %s: %q", structured, tool, steps)
			}
		}
	}
}

// What is wrong with the arguments of read_result, or with a URI, is answered with the cure.
func TestReadResultArguments(t *testing.T) {
	g, _ := withBulk(t, nil)
	id, _ := cutFor(t, g, nil, "bulk__get")
	size := len(manyLines(100 << 10))
	for arguments, want := range map[string]string{
		`{}`:                          "id is missing",
		`{"id":7}`:                    "id must be a string",
		`{"id":"x","id":"y"}`:         "an argument is given twice",
		`[]`:                          "the arguments must be an object",
		`{"id":"x","length":"5"}`:     "length must be a whole number",
		`{"id":"x","offset":[1]}`:     "offset must be a whole number",
		`{"id":"x","offset":1e300}`:   "offset must be a whole number",
		`{"id":"ID","offset":-1}`:     "offset must not be negative",
		`{"id":"ID","length":0}`:      "length must be at least 1",
		`{"id":"ID","offset":1.5}`:    "offset must be a whole number",
		`{"id":"ID","offset":999999}`: fmt.Sprintf("offset 999999 is behind the end of the result, which is %d", size),
	} {
		got := answerTo(t, g, callOf(t, nil, "read_result", strings.ReplaceAll(arguments, "ID", id)))
		if a := readAnswer(t, got); !a.IsError || !strings.HasPrefix(a.Content[0].Text, "read_result: "+want) || strings.Contains(got, "json:") {
			t.Errorf("%s: %s", arguments, got)
		}
	}
	// A model may copy the URI, and ask for the end.
	for arguments, want := range map[string]string{
		`{"id":"signalbox://results/ID?offset=3","length":4}`: `"text":"line"},{"type":"text","text":"[This is up to 4 of`,
		fmt.Sprintf(`{"id":"ID","offset":%d}`, size):          fmt.Sprintf(`"content":[{"type":"text","text":"[This is the end of the result, at %d.]"}]`, size),
	} {
		if got := answerTo(t, g, callOf(t, nil, "read_result", strings.ReplaceAll(arguments, "ID", id))); !strings.Contains(got, want) {
			t.Errorf("%s: %s", arguments, got)
		}
	}
	for query, want := range map[string]string{
		"":                                `"text":"line 0:`,
		"?":                               `"text":"line 0:`,
		"?offset=5&length=2":              `?offset=5&length=2","mimeType":"text/plain","text":"0:"}]}`,
		"?length=2&offset=5":              `"text":"0:"}]}`,
		fmt.Sprintf("?offset=%d", size):   `"text":""}]}`,
		fmt.Sprintf("?offset=%d", size+1): fmt.Sprintf("-32602 the offset is behind the end of the result, which is %d", size),
		"?offset=x":                       "-32602 the query of the URI of a result",
		"?offset=-1":                      "-32602 the query of the URI of a result",
		"?offset=1&offset=2":              "-32602 the query of the URI of a result",
		"?length=0":                       "-32602 the query of the URI of a result",
		"?other=1":                        "-32602 the query of the URI of a result",
		"?offset=1;length=2":              "-32602 the query of the URI of a result",
	} {
		if got := answerTo(t, g, requestOf(t, nil, "resources/read", `{"uri":"signalbox://results/`+id+query+`"}`)); !strings.Contains(got, want) {
			t.Errorf("%q: %.300s", query, got)
		}
	}
}

// Reads are calls: quotas count them, and their records name the call that had the result. The metrics have
// what is kept.
func TestReadsAreCalls(t *testing.T) {
	g, _ := withBulk(t, func(cfg *config.Config) {
		cfg.Quotas = []config.Quota{{Per: config.QuotaPerAll, On: []string{"read_result", "signalbox:*"}, Calls: config.Rate{Calls: 2, Every: time.Hour}}}
	})
	if got := answerTo(t, g, requestOf(t, nil, "server/discover", `{}`)); !strings.Contains(got, `"resources":{"listChanged":true},"tools":{`) {
		t.Error(got)
	}
	id, _ := cutFor(t, g, nil, "bulk__get")
	read := func() string { return answerTo(t, g, readOf(t, nil, id, 0)) }
	resource := func() string {
		return answerTo(t, g, requestOf(t, nil, "resources/read", `{"uri":"signalbox://results/`+id+`?offset=9"}`))
	}
	if one, two := read(), resource(); !strings.Contains(one, "line 0") || !strings.Contains(two, "line 1") {
		t.Fatalf("%.200s\n%.200s", one, two)
	}
	calls := g.Calls(signalbox.CallFilter{Most: 3}).Calls
	if calls[0].Name != "signalbox://results/" || calls[1].Name != "read_result" || calls[2].Name != "bulk__get" ||
		calls[0].Parent != calls[2].ID || calls[1].Parent != calls[2].ID || calls[0].Backend != "" || calls[1].Backend != "" {
		t.Errorf("%+v", calls)
	}
	for name, got := range map[string]string{"read_result": read(), "resources/read": resource()} {
		if !strings.Contains(got, "the quota of 2 calls") {
			t.Errorf("%s: %.200s", name, got)
		}
	}
	s := g.Status().Results
	if s.Kept != 1 || s.Cut != 1 || s.Bytes < 100<<10 || s.Bytes > 200<<10 {
		t.Errorf("%+v", s)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/metrics", nil)
	r.RemoteAddr = "127.0.0.1:1"
	w := httptest.NewRecorder()
	g.Operations().ServeHTTP(w, r)
	body := w.Body.String()
	for _, want := range []string{"signalbox_results_cut_total 1", "signalbox_results_evicted_total 0", fmt.Sprintf("signalbox_results_retained_bytes %d", s.Bytes)} {
		if !strings.Contains(body, "\n"+want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}

// A tool of a backend that clients would see as read_result is left out and named.
func TestReadResultIsReserved(t *testing.T) {
	withProfileSite(t, "modern", func(cfg *config.Config) {
		cfg.Results.Max = 16 << 10
		cfg.Servers[0].Rename = map[string]string{"read": "read_result"}
	}, func(s *profileSite) {
		for _, c := range s.peers("") {
			if names := strings.Join(namesIn(t, c.ask("tools/list", "", ""), "tools", "name"), " "); strings.Count(names, "read_result") != 1 || !strings.Contains(names, "github__read") {
				t.Error(names)
			}
			if got := c.ask("tools/call", "read_result", ""); !strings.Contains(got, "id is missing") {
				t.Error(got)
			}
		}
		for name, want := range map[string]string{"read_result": "true true", "files__read": "false false", "github__read": "true false"} {
			x := s.G.Explain(name, "")
			gatewaytest.WantEqual(t, name, fmt.Sprint(x.Offered, x.OfGateway), want)
		}
		if problems := strings.Join(s.G.Status().Problems, "\n"); !strings.Contains(problems, `backend "files": tool "read": left out: the gateway has a tool with this name (results); rename it [SB_NAME_RESERVED]`) || !strings.Contains(problems, code.NameReserved) {
			t.Error(problems)
		}
	})
}

// Many callers cut, read and are dropped at the same time; none reads what is not its own.
func TestResultsConcurrently(t *testing.T) {
	g, _ := withBulk(t, func(cfg *config.Config) { cfg.Results.Total = 2 << 20 })
	var all sync.WaitGroup
	for i := range 8 {
		name := fmt.Sprintf("p%d", i)
		all.Go(func() {
			as := person(name, "")
			for range 5 {
				answer := answerTo(t, g, callOf(t, as, "bulk__get", `{}`))
				id, at, _ := readAnswer(t, answer).rest()
				got := answerTo(t, g, readOf(t, as, id, at))
				if !strings.Contains(got, "line ") && !strings.Contains(got, "no longer kept") {
					t.Errorf("%.200s", got)
				}
			}
		})
	}
	all.Wait()
	if s := g.Status().Results; s.Bytes > 2<<20 || s.Cut != 40 || s.Kept == 0 {
		t.Errorf("%+v", s)
	}
}
