// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package tap_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/tap"
)

// echo answers with what it received.
func echo(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "%s %s %s %s", r.Host, r.URL, r.Header.Get("Authorization"), body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func post(t *testing.T, url, host, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRecords(t *testing.T) {
	server := echo(t)
	p := tap.Before(t, server)
	p.Change = func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }
	want := strings.TrimPrefix(server, "http://") + " /a?b=c Bearer x k=v"
	if got := post(t, p.URL+"/a?b=c", "", "k=v"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	all := p.Passed()
	if len(all) != 1 {
		t.Fatalf("got %d exchanges", len(all))
	}
	e := all[0]
	if e.Method != http.MethodPost || e.Path != "/a" || e.Query.Get("b") != "c" || e.Form().Get("k") != "v" ||
		e.Header.Get("Authorization") != "Bearer x" || e.Status != http.StatusOK || e.ResponseHeader.Get("Content-Type") != "text/plain" || e.Response != want {
		t.Errorf("got %+v", e)
	}
}

func TestHost(t *testing.T) {
	server := echo(t)
	port := func(address string) string { return address[strings.LastIndex(address, ":")+1:] }
	p, q := tap.Before(t, server), tap.Before(t, server)
	q.KeepHost = true
	for _, tt := range []struct {
		p          *tap.Tap
		host, want string
	}{
		{p, "", "127.0.0.1:" + port(server)},
		{p, "localhost:" + port(p.URL), "localhost:" + port(server)},
		{p, "evil.example", "evil.example"},
		{p, "evil.example:" + port(p.URL), "evil.example:" + port(p.URL)},
		{p, "localhost:1", "localhost:1"},
		{q, "", "127.0.0.1:" + port(q.URL)},
	} {
		if got := post(t, tt.p.URL, tt.host, ""); !strings.HasPrefix(got, tt.want+" ") {
			t.Errorf("%q: got %q, want %s", tt.host, got, tt.want)
		}
	}
}

// The origin of a page of the proxy becomes that of a page of the server.
func TestOrigin(t *testing.T) {
	server := echo(t)
	p := tap.Before(t, server)
	for origin, want := range map[string]string{p.URL: server, "http://evil.example": "http://evil.example", "null": "null"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", origin)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		all := p.Passed()
		if got := all[len(all)-1].Header.Get("Origin"); got != want {
			t.Errorf("%s: got %s, want %s", origin, got, want)
		}
	}
}

func TestFault(t *testing.T) {
	p := tap.Before(t, echo(t))
	p.Fail(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/broken" {
			return false
		}
		http.Error(w, "no", http.StatusInternalServerError)
		return true
	})
	if got := post(t, p.URL+"/broken", "", ""); got != "no\n" {
		t.Errorf("got %q", got)
	}
	if got := post(t, p.URL+"/whole", "", ""); !strings.Contains(got, "/whole") {
		t.Errorf("got %q", got)
	}
	if n := len(p.Passed()); n != 1 {
		t.Errorf("%d requests reached the server", n)
	}
}

// An event is passed on before the response ends.
func TestStream(t *testing.T) {
	rest := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: 1\n")
		w.(http.Flusher).Flush()
		select {
		case <-rest:
		case <-r.Context().Done():
		}
		fmt.Fprint(w, "data: 2\n")
	}))
	t.Cleanup(s.Close)
	p := tap.Before(t, s.URL)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	if !lines.Scan() || lines.Text() != "data: 1" {
		t.Fatalf("got %q", lines.Text())
	}
	if got := p.Passed()[0].Response; got != "data: 1\n" {
		t.Errorf("so far: got %q", got)
	}
	close(rest)
	if !lines.Scan() || lines.Text() != "data: 2" {
		t.Errorf("got %q", lines.Text())
	}
}
