// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// manyLines returns a text of at least n bytes with lines that differ.
func manyLines(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "line %d: \"é漢😀\"\\\t\n", i)
	}
	return b.String()
}

// cutAnswer is what the tests read of a result, or of an answer with one.
type cutAnswer struct {
	Content []struct {
		Type     string
		Text     string
		URI      string
		MimeType string
		Data     string
	}
	StructuredContent json.RawMessage
	IsError           bool
	Contents          []struct{ URI, MimeType, Text, Blob string }
	Result            *cutAnswer
	Error             *struct{ Message string }
}

// readAnswer reads a result, or an answer with one.
func readAnswer(t *testing.T, text string) *cutAnswer {
	t.Helper()
	var a cutAnswer
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%.300s: %v", text, err)
	}
	if a.Result != nil {
		return a.Result
	}
	return &a
}

var (
	restInNote = regexp.MustCompile(`call read_result with id "([^"]+)" and offset (\d+)`)
	uriInText  = regexp.MustCompile(`signalbox://results/[^?"]+`)
)

// rest returns how the rest of a result can be read. It reports false if nothing is missing.
func (a *cutAnswer) rest() (id string, offset int, ok bool) {
	for _, b := range a.Content {
		if m := restInNote.FindStringSubmatch(b.Text); m != nil {
			offset, _ = strconv.Atoi(m[2])
			return m[1], offset, true
		}
	}
	return "", 0, false
}

// text returns the texts of the blocks but for the note at the end.
func (a *cutAnswer) text() string {
	var b strings.Builder
	for _, block := range a.Content {
		if block.Type == "text" && !strings.HasPrefix(block.Text, "[This is ") {
			b.WriteString(block.Text)
		}
	}
	return b.String()
}

// readRest reads what is missing of a result with read_result, and with resources/read.
func readRest(t *testing.T, first *cutAnswer, most int, call func(arguments string) string, read func(uri string) string) string {
	t.Helper()
	id, offset, ok := first.rest()
	if link := first.Content[len(first.Content)-1]; !ok || link.Type != "resource_link" || link.URI != "signalbox://results/"+id+"?offset="+strconv.Itoa(offset) {
		t.Fatalf("the end is %+v", first.Content[max(0, len(first.Content)-2):])
	}
	whole, at := first.text(), offset
	for ok {
		answer := call(fmt.Sprintf(`{"id":%q,"offset":%d}`, id, at))
		a := readAnswer(t, answer)
		if _, at, ok = a.rest(); len(answer) > most+200 || a.text() == "" || a.IsError {
			t.Fatalf("%d bytes: %.300s", len(answer), answer)
		}
		whole += a.text()
	}
	byURI := first.text()
	for len(byURI) < len(whole) {
		answer := read(fmt.Sprintf("signalbox://results/%s?offset=%d", id, len(byURI)))
		a := readAnswer(t, answer)
		if len(answer) > most+200 || len(a.Contents) != 1 || a.Contents[0].Text == "" || a.Contents[0].MimeType != "text/plain" {
			t.Fatalf("%d bytes: %.300s", len(answer), answer)
		}
		byURI += a.Contents[0].Text
	}
	if byURI != whole {
		t.Error("resources/read gives another text than read_result")
	}
	return whole
}

// In each cell, a result is read whole before a byte of it is sent, its client gets what it may have, and
// reads the rest in pieces that are together the text. One that is not too large has the bytes of
// its backend.
func TestResultIsCut(t *testing.T) {
	const most = 64 << 10
	inEachCell(t, func(t *testing.T, clientEra, backendEra mcp.Era) {
		synctest.Test(t, func(t *testing.T) {
			text := manyLines(largePart)
			quoted, _ := json.Marshal(text)
			half := len(quoted) / 2
			next := make(chan struct{})
			small := `"content":[ {"type":"text","text":"\u0041"} ] ,"isError":false}`
			backend := &faultyserver.HTTP{Modern: backendEra == mcp.EraModern, On: map[string]func(*faultyserver.Exchange){
				"tools/list": func(x *faultyserver.Exchange) { x.Result(gatewaytest.ToolList("large", "small")) },
				"tools/call": func(x *faultyserver.Exchange) {
					x.W.Header().Set("Content-Type", "application/json")
					if name, _ := x.Msg.Params.Text(mcp.FieldName); name == "small" {
						x.Raw(strings.TrimSuffix(largeHead(backendEra, x.Msg.ID.String()), largeMiddle) + small + "}")
						return
					}
					x.Raw(strings.TrimSuffix(largeHead(backendEra, x.Msg.ID.String()), `"`) + string(quoted[:half]))
					<-next
					x.Raw(string(quoted[half:]) + `}]}}`)
				},
			}}
			cfg := config.Config{Servers: []config.Backend{{Name: "b", URL: "http://b/mcp"}}, Results: config.Results{Max: most}}
			h := gatewaytest.Open(t, cfg, signalbox.Options{Transport: gatewaytest.ServeBackends(t, backend)})
			c := peer{h, nil}
			if clientEra == mcp.EraLegacy {
				c.sess = h.Legacy()
			}
			gatewaytest.WantEqual(t, "tools", strings.Join(namesIn(t, c.ask("tools/list", "", ""), "tools", "name"), " "), "read_result b__large b__small")
			body := c.ask("tools/call", "b__small", "")
			if !strings.Contains(body, strings.TrimSuffix(small, "}")) {
				t.Errorf("small: %s", body)
			}
			var answered <-chan gatewaytest.Response
			if request, headers := gatewaytest.ModernRequest("1", "tools/call", "b__large", ""); c.sess == nil {
				answered = h.Async(request, headers)
			} else {
				answered = h.Async(gatewaytest.LegacyRequest("1", "tools/call", `{"name":"b__large"}`), c.sess)
			}
			synctest.Wait()
			select {
			case r := <-answered:
				t.Fatalf("answered before the backend: %.200s", r.Body)
			case next <- struct{}{}:
			}
			first := (<-answered).Body
			if len(first) > most+200 || len(first) < most/2 {
				t.Errorf("the answer has %d bytes", len(first))
			}
			whole := readRest(t, readAnswer(t, first), most,
				func(arguments string) string { return c.toolCall("read_result", arguments) },
				func(uri string) string {
					if c.sess == nil {
						return h.Post(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"`+uri+`","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
							gatewaytest.Header{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "resources/read", "Mcp-Name": uri}).Body
					}
					return c.ask("resources/read", "", `"uri":"`+uri+`"`)
				})
			if whole != text {
				t.Errorf("%d bytes are read, want %d", len(whole), len(text))
			}
		})
	})
}

// bulk is a backend with large results.
type bulk struct {
	mu      sync.Mutex
	results map[string]string // by tool, or task
	calls   int
	uris    []string
}

func (b *bulk) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	result := func(text string) (*mcp.Result, error) { return mcp.NewResult([]byte(text)) }
	b.mu.Lock()
	defer b.mu.Unlock()
	switch req.Method {
	case "server/discover":
		return result(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"tasks":{"requests":{"tools":{"call":{}}}}}}`)
	case "tools/list":
		return result(`{"tools":[{"name":"get","inputSchema":{"type":"object"}},{"name":"typed","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}},{"name":"image","inputSchema":{"type":"object"}}]}`)
	case "tools/call":
		b.calls++
		name, _ := req.Params.Text(mcp.FieldName)
		if req.Params.Has(mcp.FieldTask) {
			return result(`{"resultType":"task","taskId":"` + name + `","status":"working","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":60000}`)
		}
		return result(b.results[name])
	case "tasks/get":
		id, _ := req.Params.Text(mcp.FieldTaskID)
		return result(`{"taskId":"` + id + `","status":"completed","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":60000,"result":` + b.results[id] + `}`)
	case "tasks/result":
		id, _ := req.Params.Text(mcp.FieldTaskID)
		return result(b.results[id])
	case "resources/read":
		uri, _ := req.Params.Text(mcp.FieldURI)
		b.uris = append(b.uris, uri)
		return result(`{"contents":[]}`)
	}
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no such method")
}

// textResult returns a result with one text.
func textResult(text string) string {
	quoted, _ := json.Marshal(text)
	return `{"resultType":"complete","content":[{"type":"text","text":` + string(quoted) + `}]}`
}

// withBulk returns a gateway before a bulk, which cuts its results of 100 KB to 16 KiB.
func withBulk(t *testing.T, change func(*config.Config)) (*signalbox.Gateway, *bulk) {
	t.Helper()
	text := manyLines(100 << 10)
	structured, _ := json.Marshal(map[string]string{"text": text})
	b := &bulk{results: map[string]string{
		"get": textResult(text), "typed": strings.TrimSuffix(textResult(text), "}") + `,"structuredContent":` + string(structured) + `}`,
		"image": `{"content":[{"type":"image","mimeType":"image/png","data":"` + strings.Repeat("AAAA", 10<<10) + `"}]}`,
	}}
	cfg := config.Config{Results: config.Results{Max: 16 << 10}}
	if change != nil {
		change(&cfg)
	}
	g := gatewaytest.New(t, cfg, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "bulk", Handler: b}}})
	return g, b
}

func callOf(t *testing.T, id *mcp.Identity, name, arguments string) *mcp.Request {
	t.Helper()
	return requestOf(t, id, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments))
}

func readOf(t *testing.T, id *mcp.Identity, resultID string, offset int) *mcp.Request {
	t.Helper()
	return callOf(t, id, "read_result", fmt.Sprintf(`{"id":%q,"offset":%d}`, resultID, offset))
}

// cutFor calls a tool with a result that is cut, and returns the id of the result and where it was cut.
func cutFor(t *testing.T, g *signalbox.Gateway, id *mcp.Identity, name string) (resultID string, offset int) {
	t.Helper()
	answer := answerTo(t, g, callOf(t, id, name, `{}`))
	resultID, offset, ok := readAnswer(t, answer).rest()
	if !ok {
		t.Fatalf("is not cut: %.300s", answer)
	}
	return resultID, offset
}

// Without the setting nothing has changed: the tool is unknown, and a URI of a result is one like any other.
func TestResultsAreNotCutByDefault(t *testing.T) {
	g, b := withBulk(t, func(cfg *config.Config) { cfg.Results.Max = 0 })
	if got := answerTo(t, g, callOf(t, nil, "bulk__get", `{}`)); got != b.results["get"] {
		t.Errorf("%.200s", got)
	}
	if got := answerTo(t, g, callOf(t, nil, "read_result", `{"id":"x"}`)); !strings.HasPrefix(got, `-32602 unknown tool: "read_result"`) {
		t.Error(got)
	}
	if names := namesFor(t, g, nil); strings.Contains(fmt.Sprint(names), "read_result") {
		t.Error(names)
	}
	if got := answerTo(t, g, requestOf(t, nil, "resources/read", `{"uri":"signalbox://results/x"}`)); got != `-32002 unknown resource {"uri":"signalbox://results/x"}` {
		t.Error(got)
	}
	if g.Status().Results != nil {
		t.Error("the status has results")
	}
	if got := answerTo(t, g, requestOf(t, nil, "server/discover", `{}`)); strings.Contains(got, `"resources"`) {
		t.Error(got)
	}
}

// Invariant C15: the id of a result opens for its principal and its profile only, and in no other process.
// Every other answer is the one for an id that never existed.
func TestResultIDIsBound(t *testing.T) {
	change := func(cfg *config.Config) { cfg.Profiles = []config.Profile{{Name: "some"}} }
	g, _ := withBulk(t, change)
	other, _ := withBulk(t, change)
	ann, bob := person("ann", ""), person("bob", "")
	id, offset := cutFor(t, g, ann, "bulk__get")
	if got := answerTo(t, g, readOf(t, ann, id, offset)); !strings.Contains(got, "line ") {
		t.Fatalf("%.200s", got)
	}
	ofProfile := func(req *mcp.Request) *mcp.Request { req.Profile = "some"; return req }
	changed := "A"
	if id[:1] == changed {
		changed = "B"
	}
	const wantTool = `{"resultType":"complete","content":[{"type":"text","text":"read_result: there is no result with this id: copy the id from the end of the result that was cut"}],"isError":true}`
	for name, tt := range map[string]struct {
		at      *signalbox.Gateway
		as      *mcp.Identity
		id      string
		profile bool
	}{
		"another principal": {g, bob, id, false},
		"no principal":      {g, nil, id, false},
		"another profile":   {g, ann, id, true},
		"another process":   {other, ann, id, false},
		"cut":               {g, ann, id[:len(id)-1], false},
		"longer":            {g, ann, id + "A", false},
		"changed":           {g, ann, changed + id[1:], false},
		"forged":            {g, ann, strings.Repeat("A", len(id)), false},
	} {
		read, uri := readOf(t, tt.as, tt.id, offset), "signalbox://results/"+tt.id
		resource := requestOf(t, tt.as, "resources/read", fmt.Sprintf(`{"uri":%q}`, uri))
		if tt.profile {
			read, resource = ofProfile(read), ofProfile(resource)
		}
		if got := answerTo(t, tt.at, read); got != wantTool {
			t.Errorf("%s: %s", name, got)
		}
		if got := answerTo(t, tt.at, resource); got != fmt.Sprintf(`-32002 unknown resource {"uri":%q}`, uri) {
			t.Errorf("%s: %s", name, got)
		}
	}
	at := ofProfile(callOf(t, ann, "bulk__get", `{}`))
	inProfile, offset, _ := readAnswer(t, answerTo(t, g, at)).rest()
	if got := answerTo(t, g, ofProfile(readOf(t, ann, inProfile, offset))); !strings.Contains(got, "line ") {
		t.Errorf("in the profile: %.200s", got)
	}
	if got := answerTo(t, g, readOf(t, ann, inProfile, offset)); got != wantTool {
		t.Errorf("outside of the profile: %s", got)
	}
}

// A result is kept for its time, and while there is room; then the error has the cure.
func TestResultsAreDropped(t *testing.T) {
	const (
		goneTool = `read_result: the result is no longer kept (results.keep, results.total): call its tool again`
		goneURI  = `-32002 the result is no longer kept (results.keep, results.total): call its tool again `
	)
	synctest.Test(t, func(t *testing.T) {
		g, _ := withBulk(t, func(cfg *config.Config) { cfg.Results.Keep, cfg.Results.Total = time.Minute, 900<<10 })
		ann, bob := person("ann", ""), person("bob", "")
		isKept := func(as *mcp.Identity, id string) bool {
			t.Helper()
			tool := answerTo(t, g, readOf(t, as, id, 0))
			uri := answerTo(t, g, requestOf(t, as, "resources/read", `{"uri":"signalbox://results/`+id+`"}`))
			switch isGone := strings.Contains(tool, goneTool); {
			case isGone != (uri == goneURI):
				t.Errorf("%.200s\n%.200s", tool, uri)
				return false
			case isGone:
				return false
			default:
				return strings.Contains(tool, "line 0") && strings.Contains(uri, "line 0")
			}
		}
		first, _ := cutFor(t, g, ann, "bulk__get")
		time.Sleep(59 * time.Second)
		second, _ := cutFor(t, g, ann, "bulk__get")
		if !isKept(ann, first) || !isKept(ann, second) {
			t.Error("dropped early")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if isKept(ann, first) || !isKept(ann, second) {
			t.Error("kept for longer, or dropped early")
		}
		if s := g.Status().Results; s.Kept != 1 || s.Cut != 2 || s.Evicted != 0 || s.Bytes < 100<<10 {
			t.Errorf("%+v", s) // by the timer alone
		}
		third, _ := cutFor(t, g, ann, "bulk__get")
		ofBob, _ := cutFor(t, g, bob, "bulk__get")
		fourth, _ := cutFor(t, g, ann, "bulk__get") // more than a quarter of the total
		if isKept(ann, second) || !isKept(ann, third) || !isKept(ann, fourth) || !isKept(bob, ofBob) {
			t.Error("the oldest of the principal is not the one that was dropped")
		}
		if s := g.Status().Results; s.Kept != 3 || s.Evicted != 1 {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := g.Status().Results; s.Kept != 0 || s.Bytes != 0 {
			t.Errorf("%+v", s)
		}
	})
	g, _ := withBulk(t, func(cfg *config.Config) { cfg.Results.Total = 64 << 10 })
	a := readAnswer(t, answerTo(t, g, callOf(t, nil, "bulk__get", `{}`)))
	if end := a.Content[len(a.Content)-1]; end.Text == "" || !strings.HasSuffix(end.Text, "The rest is too large to be kept (results.total).]") {
		t.Errorf("%+v", end)
	}
}

// A result is read by callers that may make its call: the policy is asked at each read.
func TestPolicyOfKeptResults(t *testing.T) {
	rules := func(rules ...config.PolicyRule) config.Policy {
		return config.Policy{Otherwise: config.PolicyAllow, Rules: rules}
	}
	g, _ := withBulk(t, func(cfg *config.Config) {
		cfg.Policy = rules(config.PolicyRule{Name: "r", Deny: "args.n == 1", On: []string{"bulk__image"}})
	})
	ann := person("ann", "")
	id, offset, _ := readAnswer(t, answerTo(t, g, callOf(t, ann, "bulk__get", `{"n":1}`))).rest()
	other, _, _ := readAnswer(t, answerTo(t, g, callOf(t, ann, "bulk__get", `{"n":2}`))).rest()
	isRead := func(id string) bool {
		tool := answerTo(t, g, readOf(t, ann, id, offset))
		uri := answerTo(t, g, requestOf(t, ann, "resources/read", `{"uri":"signalbox://results/`+id+`"}`))
		if isTool, isURI := strings.Contains(tool, "line "), strings.Contains(uri, "line "); isTool != isURI || !isTool && (!strings.Contains(tool, "there is no result with this id") || !strings.HasPrefix(uri, "-32002 unknown resource")) {
			t.Errorf("%.200s\n%.200s", tool, uri)
		}
		return strings.Contains(tool, "line ")
	}
	if !isRead(id) || !isRead(other) {
		t.Error("cannot be read")
	}
	for _, tt := range []struct {
		rule      config.PolicyRule
		one, both bool
	}{
		{config.PolicyRule{Name: "r", Deny: "args.n == 1", On: []string{"bulk__get"}}, false, true},
		{config.PolicyRule{Name: "r", Deny: "true", On: []string{"bulk__get"}}, false, false},
		{config.PolicyRule{Name: "r", Confirm: "true", On: []string{"bulk__get"}}, true, true}, // it was asked about
		{config.PolicyRule{Name: "r", Needs: []string{"x"}, On: []string{"bulk__get"}}, false, false},
	} {
		cfg := config.Config{Results: config.Results{Max: 16 << 10}, Policy: rules(tt.rule)}
		if err := g.Reload(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		if one, two := isRead(id), isRead(other); one != tt.one || two != tt.both {
			t.Errorf("%+v: %t, %t", tt.rule, one, two)
		}
	}
	// Where the policy hides read_result, the link is left.
	cfg := config.Config{Results: config.Results{Max: 16 << 10}, Policy: rules(config.PolicyRule{Name: "r", Deny: "true", On: []string{"read_result"}})}
	if err := g.Reload(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	answer := answerTo(t, g, callOf(t, ann, "bulk__get", `{}`))
	if strings.Contains(answer, "read_result") || !strings.Contains(answer, "For the rest read the link that follows, within 30m.") {
		t.Errorf("%.300s", answer[len(answer)-400:])
	}
	if got := answerTo(t, g, requestOf(t, ann, "resources/read", `{"uri":"`+uriInText.FindString(answer)+`"}`)); !strings.Contains(got, "line 0") {
		t.Errorf("%.200s", got)
	}
	if got := answerTo(t, g, readOf(t, ann, "x", 0)); !strings.Contains(got, "unknown tool") {
		t.Error(got)
	}
}

// Filters see the whole result before it is cut, and what filters have passed that have changed since is
// dropped.
func TestFiltersActBeforeTheCut(t *testing.T) {
	g, b := withBulk(t, func(cfg *config.Config) { cfg.Filters = []config.Filter{redactFilter("*")} })
	b.results["get"] = textResult(strings.Repeat("x", 20<<10) + secretWord + strings.Repeat("y", 10<<10))
	id, offset := cutFor(t, g, nil, "bulk__get")
	if got := readAnswer(t, answerTo(t, g, readOf(t, nil, id, offset))).text(); !strings.Contains(got, "x*y") {
		t.Errorf("%d bytes: %.100s", len(got), got)
	}
	if err := g.Reload(t.Context(), config.Config{Results: config.Results{Max: 16 << 10}, Filters: []config.Filter{redactFilter("?")}}); err != nil {
		t.Fatal(err)
	}
	if got := answerTo(t, g, readOf(t, nil, id, offset)); !strings.Contains(got, "no longer kept") {
		t.Errorf("%.200s", got)
	}
}

// A result of a tool with an output schema is not cut, and with "error" it is an error with a link.
func TestStructuredResults(t *testing.T) {
	g, b := withBulk(t, nil)
	if got := answerTo(t, g, callOf(t, nil, "bulk__typed", `{}`)); got != b.results["typed"] {
		t.Errorf("pass: %.200s", got)
	}
	g, b = withBulk(t, func(cfg *config.Config) { cfg.Results.Structured = config.StructuredError })
	answer := answerTo(t, g, callOf(t, nil, "bulk__typed", `{}`))
	a := readAnswer(t, answer)
	id, offset, ok := a.rest()
	if !ok || !a.IsError || offset != 0 || a.StructuredContent != nil || len(a.Content) != 2 || a.Content[1].Type != "resource_link" {
		t.Fatalf("error: %.300s", answer)
	}
	var want cutAnswer
	if err := json.Unmarshal([]byte(b.results["typed"]), &want); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for at, more := 0, true; more; {
		piece := readAnswer(t, answerTo(t, g, readOf(t, nil, id, at)))
		all.WriteString(piece.text())
		_, at, more = piece.rest()
	}
	if all.String() != want.Content[0].Text+string(want.StructuredContent) {
		t.Errorf("%d bytes can be read", all.Len())
	}
}

// An image is linked, and read as a whole.
func TestLargeImage(t *testing.T) {
	g, b := withBulk(t, nil)
	a := readAnswer(t, answerTo(t, g, callOf(t, nil, "bulk__image", `{}`)))
	if len(a.Content) != 2 || a.Content[0].MimeType != "image/png" || a.Content[0].Type != "resource_link" || a.Content[1].Text != "[What is not text is linked, because the result is large.]" {
		t.Fatalf("%+v", a)
	}
	read := readAnswer(t, answerTo(t, g, requestOf(t, nil, "resources/read", `{"uri":"`+a.Content[0].URI+`"}`)))
	if len(read.Contents) != 1 || read.Contents[0].MimeType != "image/png" || !strings.Contains(b.results["image"], `"`+read.Contents[0].Blob+`"`) || read.Contents[0].URI != a.Content[0].URI {
		t.Errorf("%.300v", read)
	}
}

// The result of a call through call_tool is cut once, with the limit of the server of the tool, whatever
// the schema of that tool is.
func TestResultThroughCallTool(t *testing.T) {
	withProfileSite(t, "modern", func(cfg *config.Config) {
		withSearch(cfg)
		cfg.Profiles = append(cfg.Profiles, config.Profile{Name: "auto", View: config.ViewAuto})
		cfg.Servers[1].Results = &config.ServerResults{Max: 4 << 10} // github
	}, func(s *profileSite) {
		s.servers["github"].more = manyLines(30 << 10)
		// Clients that are sent the tools of servers are sent read_result with them.
		for profile, want := range map[string]string{"auto": "read_result", "": "read_result"} {
			if names := namesIn(t, peer{s.At(profile), nil}.ask("tools/list", "", ""), "tools", "name"); names[0] != want || len(names) != 10 {
				t.Errorf("%q: %q", profile, names)
			}
		}
		for era, c := range s.peers("found") {
			gatewaytest.WantEqual(t, era+" list", strings.Join(namesIn(t, c.ask("tools/list", "", ""), "tools", "name"), " "), "find_tool call_tool call_tool_readonly read_result files__slow github__slow")
			before := s.G.Status().Results.Cut
			answer := c.toolCall("call_tool", `{"name":"github__read"}`)
			if n := strings.Count(answer, "signalbox://results/"); n != 1 || len(answer) > 4<<10+200 || s.G.Status().Results.Cut != before+1 {
				t.Errorf("%s: %d links, %d bytes, %d cuts", era, n, len(answer), s.G.Status().Results.Cut-before)
			}
			if calls := s.G.Calls(signalbox.CallFilter{Most: 2}).Calls; calls[0].Name != "call_tool" || calls[0].ResponseBytes > 4<<10 || calls[1].ResponseBytes < 30<<10 {
				t.Errorf("%s: the inner call does not have the whole result: %+v", era, calls)
			}
			a := readAnswer(t, answer)
			id, at, ok := a.rest()
			whole := a.text()
			for ok {
				piece := readAnswer(t, c.toolCall("read_result", fmt.Sprintf(`{"id":%q,"offset":%d}`, id, at)))
				whole += piece.text()
				_, at, ok = piece.rest()
			}
			gatewaytest.WantEqual(t, era+" whole", whole, "read of github"+manyLines(30<<10))
			if inner := c.toolCall("call_tool", `{"name":"read_result","arguments":{"id":"x"}}`); !strings.Contains(inner, `there is no tool \"read_result\"`) {
				t.Errorf("%s: %s", era, inner)
			}
		}
	})
}
