// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// sessionClient is a client of an earlier revision in a session.
type sessionClient struct {
	g       *signInGateway
	headers map[string]string
}

// session opens a session.
func (g *signInGateway) session(token, version, caps string) *sessionClient {
	g.t.Helper()
	c := &sessionClient{g, map[string]string{"Authorization": "Bearer " + token}}
	resp := c.post(g.t.Context(), fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"t","version":"1"}}}`, version, caps))
	c.headers["Mcp-Session-Id"], c.headers["Mcp-Protocol-Version"] = resp.Header.Get("Mcp-Session-Id"), version
	if got := read(g.t, resp); resp.StatusCode != 200 || !strings.Contains(got, version) {
		g.t.Fatalf("initialize: %d %s", resp.StatusCode, got)
	}
	if got := read(g.t, c.post(g.t.Context(), `{"jsonrpc":"2.0","method":"notifications/initialized"}`)); got != "" {
		g.t.Fatalf("initialized: %s", got)
	}
	return c
}

// post sends a message.
func (c *sessionClient) post(ctx context.Context, body string) *http.Response {
	c.g.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.g.edge.URL+"/mcp", strings.NewReader(body))
	if err != nil {
		c.g.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range c.headers {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.g.t.Fatal(err)
	}
	return resp
}

func read(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const gateCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"crm__sign_in","arguments":{}}}`

// notice calls the tool to sign in, and returns the first message that it gets.
func (c *sessionClient) notice() string {
	c.g.t.Helper()
	resp := c.post(c.g.t.Context(), gateCall)
	defer resp.Body.Close()
	for lines := bufio.NewReader(resp.Body); ; {
		line, err := lines.ReadString('\n')
		if err != nil || strings.Contains(line, `"jsonrpc"`) {
			return line
		}
	}
}

var questionID = regexp.MustCompile(`"id":("[^"]*"|[0-9]+),"method":"elicitation/create"|"method":"elicitation/create".*"id":("[^"]*"|[0-9]+)`)

// asked calls the tool to sign in, reads the stream up to the question, and answers it. It returns
// the question and the rest of the stream.
func (c *sessionClient) asked(action string) (question string, rest io.ReadCloser) {
	c.g.t.Helper()
	resp := c.post(c.g.t.Context(), gateCall)
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			c.g.t.Fatalf("no question: %v", err)
		}
		found := questionID.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":%q}}`, found[1]+found[2], action)
		if got := read(c.g.t, c.post(c.g.t.Context(), answer)); got != "" {
			c.g.t.Fatalf("the answer: %s", got)
		}
		return line, struct {
			io.Reader
			io.Closer
		}{lines, resp.Body}
	}
}

// A user of three clients signs in once: each client is asked in its own way, for the same page,
// and all go on (identity attack 42).
func TestSignInOfClientsOfThreeRevisions(t *testing.T) {
	p := newSignInPeers(t)
	g := p.open(withTokens)
	retried(t, g.Gateway, "down")
	const ann = "canary-token-of-t_ann"
	oldest, older := g.session(ann, "2025-06-18", withURL), g.session(ann, "2025-11-25", withURL)
	page, state := g.begun(ann)
	text := oldest.notice()
	if pageURL.FindString(text) != page || !strings.Contains(text, `"isError":true`) || strings.Contains(text, "elicitation") {
		t.Errorf("2025-06-18 has got: %s", text)
	}
	question, rest := older.asked("accept")
	if pageURL.FindString(question) != page || !strings.Contains(question, `"mode":"url"`) {
		t.Errorf("2025-11-25 is asked: %s", question)
	}
	answered := make(chan string, 2)
	go func() {
		answered <- g.call(ann, "tools/call", "crm__sign_in", withURL, `,"requestState":"`+state+`","inputResponses":{"signin":{"action":"accept"}}`)
	}()
	go func() {
		defer rest.Close()
		all, err := io.ReadAll(rest)
		answered <- fmt.Sprint(string(all), err)
	}()
	for g.Status().InFlight < 2 {
		runtime.Gosched()
	}
	b := newBrowser(t)
	b.post(page, g.edge.URL, map[string][]string{"token": {ann}})
	if status, html := b.post(page, g.edge.URL, nil); status != 200 || !strings.Contains(html, "You are signed in") {
		t.Fatalf("status %d\n%s", status, html)
	}
	completed := 0
	for range 2 {
		got := <-answered
		if !strings.Contains(got, "You are signed in to crm") || strings.Contains(got, `"isError":true`) {
			t.Errorf("a call that waited: %s", got)
		}
		completed += strings.Count(got, "notifications/elicitation/complete")
	}
	if completed != 1 {
		t.Errorf("%d notifications of the end, want one to the client of 2025-11-25", completed)
	}
	if got := oldest.notice(); !strings.Contains(got, "You are signed in to crm") {
		t.Errorf("2025-06-18 goes on: %s", got)
	}
	if p.asked.Load() != 1 || p.issued.Load() != 1 {
		t.Errorf("the authorization server was asked %d times, and has issued %d tokens", p.asked.Load(), p.issued.Load())
	}
}

// A client that leaves while its call waits for the sign-in takes nothing with it: the page is for
// its next call (identity attack 35).
func TestClientLeavesDuringSignIn(t *testing.T) {
	p := newSignInPeers(t)
	g := p.open(keyed)
	retried(t, g.Gateway, "down")
	page, state := g.begun("")
	accept := `,"requestState":"` + state + `","inputResponses":{"signin":{"action":"accept"}}`
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		req, err := g.request(ctx, "", "tools/call", "crm__sign_in", withURL, accept)
		if err == nil {
			_, err = http.DefaultClient.Do(req)
		}
		left <- err
	}()
	for g.Status().InFlight == 0 {
		runtime.Gosched()
	}
	leave()
	if err := <-left; err == nil {
		t.Fatal("the call has a response")
	}
	for g.Status().InFlight != 0 {
		runtime.Gosched()
	}
	next, state := g.begun("")
	if next != page {
		t.Errorf("the next call has the page %s, want %s", next, page)
	}
	if status, html := newBrowser(t).post(page, g.edge.URL, nil); status != 200 {
		t.Fatalf("status %d\n%s", status, html)
	}
	accept = `,"requestState":"` + state + `","inputResponses":{"signin":{"action":"accept"}}`
	if res := g.call("", "tools/call", "crm__sign_in", withURL, accept); !strings.Contains(res, "You are signed in") {
		t.Errorf("the next call: %s", res)
	}
}

// A client that declines gets a text at once that explains what to do later, and the page stays (identity attack 35).
func TestSignInIsDeclined(t *testing.T) {
	p := newSignInPeers(t)
	g := p.open(withTokens)
	retried(t, g.Gateway, "down")
	const ann = "canary-token-of-t_ann"
	page, state := g.begun(ann)
	for _, action := range []string{"decline", "cancel"} {
		res := g.call(ann, "tools/call", "crm__sign_in", withURL, `,"requestState":"`+state+`","inputResponses":{"signin":{"action":"`+action+`"}}`)
		if !strings.Contains(res, `"isError":true`) || pageURL.FindString(res) != page || strings.Contains(res, "requestState") {
			t.Errorf("%s: %s", action, res)
		}
		_, rest := g.session(ann, "2025-11-25", withURL).asked(action)
		notice, err := io.ReadAll(rest)
		rest.Close()
		if err != nil || !strings.Contains(string(notice), `"isError":true`) || pageURL.FindString(string(notice)) != page {
			t.Errorf("%s in a session: %s, %v", action, notice, err)
		}
		if _, state = g.begun(ann); state == "" {
			t.Error("it is not asked again")
		}
	}
	if n := p.asked.Load(); n != 0 {
		t.Errorf("the authorization server was asked %d times", n)
	}
}
