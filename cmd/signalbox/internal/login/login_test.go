// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

// session is a running command login, with --no-browser unless there are other flags.
type session struct {
	*commandtest.Env
	server *commandtest.SignInServer
	typed  *io.PipeWriter
	ended  chan error
}

func start(t *testing.T, oauth string, flags ...string) *session {
	t.Helper()
	s := &session{Env: commandtest.New(t, ""), server: commandtest.NewSignInServer(commandtest.Responding(nil)), ended: make(chan error, 1)}
	t.Cleanup(s.server.End)
	commandtest.WithState(t, s.Env)
	commandtest.Write(t, filepath.Join(s.Dir, "signalbox.yaml"), fmt.Sprintf("mcpServers:\n  wiki: {url: %q, oauth: {%s}}\n", s.server.URL+"/mcp", oauth))
	stdin, typed := io.Pipe()
	s.Stdin, s.typed = stdin, typed
	t.Cleanup(func() { typed.Close() })
	if flags == nil {
		flags = []string{"--no-browser"}
	}
	go func() { s.ended <- s.Execute(t.Context(), New(s.Env.Env), append([]string{"wiki"}, flags...)...) }()
	return s
}

// address returns the address for the browser.
func (s *session) address(t *testing.T) *url.URL {
	t.Helper()
	commandtest.AwaitText(t, s.Out, "\n", 1)
	u, err := url.Parse(strings.TrimSpace(s.Out.String()))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// last returns the address that a browser ends at, which is not opened.
func last(t *testing.T, address *url.URL) string {
	t.Helper()
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(get(t, address.String()))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.Header.Get("Location")
}

func get(t *testing.T, address string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// send returns the status and the body of a response.
func send(t *testing.T, req *http.Request) (*http.Response, string) {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func (s *session) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-s.ended:
		return err
	case <-time.After(commandtest.Patience):
		t.Fatalf("login did not end:\n%s", s.Err)
		return nil
	}
}

// tokenRequests returns the number of requests for a token.
func (s *session) tokenRequests() int {
	n := 0
	for _, r := range s.server.Requests() {
		if strings.HasPrefix(r, "token ") {
			n++
		}
	}
	return n
}

// The browser is on another machine, and the address of its last page is pasted (identity attack
// 34). What is typed before is refused with what to paste.
func TestPaste(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	address := s.address(t)
	end := last(t, address)
	for _, wrong := range []string{"yes", address.String(), strings.Replace(end, "state=", "state=x", 1), "http://127.0.0.1:1/callback?" + end[strings.Index(end, "?")+1:]} {
		fmt.Fprintln(s.typed, wrong)
	}
	fmt.Fprintln(s.typed)
	commandtest.AwaitText(t, s.Err, "that is not the address of this sign-in; paste the whole address of the last page, which begins with "+address.Query().Get("redirect_uri")+"?\n", 4)
	fmt.Fprintln(s.typed, "  "+end+" \r")
	if err := s.end(t); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.Out.String(), "wiki: signed in at 127.0.0.1:") || s.tokenRequests() != 1 {
		t.Errorf("printed %q after %d token requests", s.Out, s.tokenRequests())
	}
	for _, secret := range s.server.Secrets() {
		if strings.Contains(s.Out.String()+s.Err.String(), secret) {
			t.Errorf("printed the secret %q", secret)
		}
	}
}

// The listener takes one response, with the state of the sign-in, and says nothing of others
// (identity attacks 21, 22 and 24).
func TestCallback(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.typed.Close() // the listener goes on without a terminal
	address := s.address(t)
	end := last(t, address)
	own, err := url.Parse(end)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(name string, status int, change func(r *http.Request, q url.Values)) {
		t.Helper()
		req := get(t, end)
		q := own.Query()
		change(req, q)
		req.URL.RawQuery = q.Encode()
		resp, body := send(t, req)
		if resp.StatusCode != status || strings.Contains(body, "canary") || strings.Contains(body, "evil") {
			t.Errorf("%s: status %d, want %d; %s", name, resp.StatusCode, status, body)
		}
	}
	refused("another state", 400, func(_ *http.Request, q url.Values) { q.Set("state", "evil") })
	refused("no state", 400, func(_ *http.Request, q url.Values) { q.Del("state") })
	refused("an error with another state", 400, func(_ *http.Request, q url.Values) { q.Set("state", "x"); q.Set("error", "evil") })
	refused("two codes", 400, func(_ *http.Request, q url.Values) { q.Add("code", "evil") })
	refused("no code", 400, func(_ *http.Request, q url.Values) { q.Del("code") })
	refused("another host", 404, func(r *http.Request, _ url.Values) { r.Host = "evil.example.com" })
	refused("another path", 404, func(r *http.Request, _ url.Values) { r.URL.Path = "/" })
	refused("another method", 405, func(r *http.Request, _ url.Values) { r.Method = http.MethodPost })
	if n := s.tokenRequests(); n != 0 {
		t.Fatalf("%d token requests for refused responses", n)
	}
	// Twice at once: one of them is taken.
	type result struct {
		status int
		body   string
		header http.Header
	}
	results := make(chan result, 2)
	for range 2 {
		req := get(t, end)
		go func() {
			c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			resp, err := c.Do(req)
			if err != nil { // the command has ended before it came
				results <- result{}
				return
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			results <- result{resp.StatusCode, string(body), resp.Header}
		}()
	}
	both := []result{<-results, <-results}
	if err := s.end(t); err != nil {
		t.Fatal(err)
	}
	taken := slices.IndexFunc(both, func(r result) bool { return r.status == http.StatusOK })
	if taken < 0 || both[1-taken].status == http.StatusOK || s.tokenRequests() != 1 {
		t.Fatalf("got the pages %+v after %d token requests", both, s.tokenRequests())
	}
	page := both[taken]
	if !strings.Contains(page.body, "You can close this window") || strings.Contains(page.body, "canary") {
		t.Errorf("got the page %s", page.body)
	}
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		"Access-Control-Allow-Origin": "",
	} {
		if got := page.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// A signal ends the sign-in, and nothing is left of it.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	address := s.address(t)
	s.Arrived <- os.Interrupt
	s.typed.Close()
	if err := s.end(t); err == nil || err.Error() != "login wiki: interrupted; nothing was changed" {
		t.Errorf("got %v", err)
	}
	redirect, err := url.Parse(address.Query().Get("redirect_uri"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", redirect.Host)
	if err != nil {
		t.Fatalf("the port of the sign-in is not free: %v", err)
	}
	l.Close()
}

// The configured port is in use, or the one of an earlier sign-in (identity attack 34).
func TestPortInUse(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	s := start(t, "callbackPort: "+port, "--wait", "1ms")
	if err := s.end(t); err == nil || !strings.Contains(err.Error(), "the port of oauth.callbackPort cannot be used: ") {
		t.Errorf("got %v", err)
	}
	s = start(t, "callbackPort: "+port)
	address := s.address(t)
	if got := address.Query().Get("redirect_uri"); got != "http://127.0.0.1:"+port+"/callback" {
		t.Errorf("the redirect URI is %s", got)
	}
	fmt.Fprintln(s.typed, last(t, address))
	if err := s.end(t); err != nil {
		t.Error(err)
	}
	// The port of the registration is in use, and the command registers another one.
	s.Out, s.Err = new(commandtest.Buffer), new(commandtest.Buffer)
	s.Stdout, s.Stderr = s.Out, s.Err
	commandtest.Write(t, filepath.Join(s.Dir, "signalbox.yaml"), fmt.Sprintf("mcpServers:\n  wiki: {url: %q}\n", s.server.URL+"/mcp"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := New(s.Env.Env)
	go func() { s.ended <- s.Execute(ctx, cmd, "wiki", "--no-browser") }()
	if got := s.address(t).Query().Get("redirect_uri"); strings.Contains(got, ":"+port+"/") {
		t.Errorf("the redirect URI is %s, whose port is in use", got)
	}
	cancel()
	s.typed.Close()
	if err := s.end(t); err == nil {
		t.Error("no error")
	}
	if r := s.server.Requests(); len(r) == 0 || strings.Count(strings.Join(r, "\n"), "register ") != 2 {
		t.Errorf("got the requests %q", r)
	}
}

// The redirect URI has the host that the client is registered with, and 127.0.0.1 is listened at
// (identity attack 34).
func TestCallbackHost(t *testing.T) {
	t.Parallel()
	s := start(t, "callbackHost: localhost")
	address := s.address(t)
	redirect, err := url.Parse(address.Query().Get("redirect_uri"))
	if err != nil || redirect.Hostname() != "localhost" || redirect.Path != "/callback" {
		t.Fatalf("the redirect URI is %s, %v", redirect, err)
	}
	req := get(t, strings.Replace(last(t, address), "//localhost:", "//127.0.0.1:", 1))
	req.Host = redirect.Host
	if resp, body := send(t, req); resp.StatusCode != http.StatusOK {
		t.Errorf("status %d: %s", resp.StatusCode, body)
	}
	if err := s.end(t); err != nil {
		t.Error(err)
	}
}

func TestBrowsers(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	blank := filepath.Join(folder, "my browser")
	if err := os.WriteFile(blank, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		list string
		want [][]string
	}{
		{"firefox", [][]string{{"firefox", "URL"}}},
		{`firefox -P "my profile" %s`, [][]string{{"firefox", "-P", "my profile", "URL"}}},
		{"a" + string(os.PathListSeparator) + "b --url=%s", [][]string{{"a", "URL"}, {"b", "--url=URL"}}},
		{"$(touch x) `y`; z", [][]string{{"$(touch", "x)", "`y`;", "z", "URL"}}},
		{blank, [][]string{{blank, "URL"}}},
	} {
		var got [][]string
		for _, words := range named(tt.list) {
			got = append(got, append(words[:1:1], withAddress(words[1:], "URL")...))
		}
		if fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%q starts %q, want %q", tt.list, got, tt.want)
		}
	}
}

// Only http and https URLs are opened.
func TestOpenBrowserRefuses(t *testing.T) {
	t.Parallel()
	e := commandtest.New(t, "")
	e.LookupEnv = func(name string) (string, bool) { return "no-such-browser", name == "BROWSER" }
	for _, address := range []string{"javascript:alert(1)", "file:///etc/passwd", "-new-window", "https:", "", "http://[::1"} {
		if err := openBrowser(t.Context(), e.Env, address, ""); err == nil || !strings.Contains(err.Error(), "is not an http or https URL") {
			t.Errorf("%q: got %v", address, err)
		}
	}
	if err := openBrowser(t.Context(), e.Env, "https://id.example.com/", ""); err == nil || !strings.Contains(err.Error(), "no-such-browser") {
		t.Errorf("got %v", err)
	}
}
