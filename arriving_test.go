// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// largeBackend is a server of either era with a tool that answers by calling answer
// with the id of the call.
func largeBackend(t *testing.T, era mcp.Era, answer func(w http.ResponseWriter, r *http.Request, id string)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		m, perr := mcp.Parse(body, mcp.Limits{})
		if err != nil || perr != nil || r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		id := m.ID.String()
		w.Header().Set("Content-Type", "application/json")
		switch {
		case m.Kind == mcp.KindNotification:
			w.WriteHeader(http.StatusAccepted)
		case m.Method == "tools/call":
			answer(w, r, id)
		case m.Method == "server/discover" && era == mcp.EraModern:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}`, id)
		case m.Method == "initialize" && era == mcp.EraLegacy:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"b","version":"1"}}}`, id)
		default:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, id)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// bridged starts a gateway in front of the backend and returns a function that calls
// the tool as a client of the era.
func bridged(t *testing.T, backend string, era mcp.Era) func(t *testing.T) *http.Response {
	t.Helper()
	c := client.NewHTTP(backend, client.Config{Name: "b"})
	h := server.New(c, server.Config{PassArriving: true})
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.Close()
		h.Close()
		c.Close()
	})
	headers := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	call := `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"large"}}`
	if era == mcp.EraModern {
		headers["Mcp-Protocol-Version"], headers["Mcp-Method"], headers["Mcp-Name"] = []string{"2026-07-28"}, []string{"tools/call"}, []string{"large"}
		call = `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"large","_meta":{` +
			`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	} else {
		res := postTo(t, s.URL, headers, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
		headers["Mcp-Session-Id"] = res.Header["Mcp-Session-Id"]
		res.Body.Close()
	}
	return func(t *testing.T) *http.Response { t.Helper(); return postTo(t, s.URL, headers, call) }
}

func postTo(t *testing.T, url string, headers http.Header, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = headers
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// inEachCell runs f with each pair of eras of a client and a backend.
func inEachCell(t *testing.T, f func(t *testing.T, client, backend mcp.Era)) {
	t.Helper()
	for _, c := range []mcp.Era{mcp.EraLegacy, mcp.EraModern} {
		for _, b := range []mcp.Era{mcp.EraLegacy, mcp.EraModern} {
			t.Run(fmt.Sprintf("%v client, %v backend", c, b), func(t *testing.T) { f(t, c, b) })
		}
	}
}

// The parts of a large response of a backend.
const (
	largePart   = 300 << 10
	largeMiddle = `"content":[{"type":"text","text":"`
	largeEnd    = `"}],"isError":true}}`
)

func largeHead(era mcp.Era, id string) string {
	typed := ""
	if era == mcp.EraModern {
		typed = `"resultType":"complete",`
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{` + typed + largeMiddle
}

// In each cell, a client reads a part of a result before its backend has sent the next,
// and receives all of it in the end.
func TestLargeResultArrives(t *testing.T) {
	for name, announced := range map[string]bool{"its length is announced": true, "its length is not announced": false} {
		t.Run(name, func(t *testing.T) {
			inEachCell(t, func(t *testing.T, clientEra, backendEra mcp.Era) {
				largeResultArrives(t, announced, clientEra, backendEra)
			})
		})
	}
}

func largeResultArrives(t *testing.T, announced bool, clientEra, backendEra mcp.Era) {
	text := strings.Repeat("0123456789", largePart/10)
	next := make(chan struct{})
	url := largeBackend(t, backendEra, func(w http.ResponseWriter, r *http.Request, id string) {
		head := largeHead(backendEra, id)
		if announced {
			w.Header().Set("Content-Length", strconv.Itoa(len(head)+2*len(text)+len(largeEnd)))
		}
		_, _ = io.WriteString(w, head+text)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-next:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, text+largeEnd)
	})
	res := bridged(t, url, clientEra)(t)
	defer res.Body.Close()
	front := `{"jsonrpc":"2.0","id":"x","result":{`
	if clientEra == mcp.EraModern {
		front += `"resultType":"complete",`
	}
	front += largeMiddle + text
	got := make([]byte, len(front))
	if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != front {
		t.Fatalf("the first part: %.100s, %v", got, err)
	}
	if isAnnounced := res.ContentLength > 0; isAnnounced != announced {
		t.Errorf("the length of the answer is %d, where that of the backend's was announced: %v", res.ContentLength, announced)
	}
	close(next)
	rest, err := io.ReadAll(res.Body)
	result, closed := strings.CutSuffix(string(bytes.TrimSpace(rest)), "}")
	// Before the last brace is white space for the announced length that was left out.
	if want := text + strings.TrimSuffix(largeEnd, "}"); err != nil || !closed || strings.TrimRight(result, " ") != want {
		t.Errorf("the second part: %d bytes, %v; want %d", len(rest), err, len(want)+1)
	}
}

// Some servers write the id after the result; this also works.
func TestLargeResultBeforeItsID(t *testing.T) {
	inEachCell(t, func(t *testing.T, clientEra, backendEra mcp.Era) {
		text := strings.Repeat("0123456789", largePart/10)
		url := largeBackend(t, backendEra, func(w http.ResponseWriter, _ *http.Request, id string) {
			_, _ = io.WriteString(w, `{"result":{"resultType":"complete",`+largeMiddle+text+`"}]},"jsonrpc":"2.0","id":`+id+`}`)
		})
		res := bridged(t, url, clientEra)(t)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if m, perr := mcp.Parse(body, mcp.Limits{}); err != nil || perr != nil || m.Kind != mcp.KindResult || !bytes.Contains(body, []byte(text)) {
			t.Errorf("%v, %v: %.100s", err, perr, body)
		}
	})
}

// If a backend dies in the middle of a result, or its text becomes invalid, the
// response is cut so that the client can detect it (I3). Nothing else is affected.
func TestLargeResultIsCut(t *testing.T) {
	for name, spoil := range map[string]func(w http.ResponseWriter){
		"the backend dies":     func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"the text turns wrong": func(w http.ResponseWriter) { _, _ = io.WriteString(w, "\x01"+largeEnd) },
	} {
		t.Run(name, func(t *testing.T) {
			inEachCell(t, func(t *testing.T, clientEra, backendEra mcp.Era) {
				text := strings.Repeat("0123456789", largePart/10)
				url := largeBackend(t, backendEra, func(w http.ResponseWriter, _ *http.Request, id string) {
					_, _ = io.WriteString(w, largeHead(backendEra, id)+text)
					_ = http.NewResponseController(w).Flush()
					spoil(w)
				})
				call := bridged(t, url, clientEra)
				for range 2 {
					res := call(t)
					body, err := io.ReadAll(res.Body)
					res.Body.Close()
					if !errors.Is(err, io.ErrUnexpectedEOF) {
						t.Errorf("the answer ended with %v after %d bytes", err, len(body))
					}
				}
			})
		})
	}
}

// If a client disconnects in the middle, the connection to the backend is closed.
func TestLargeResultOfAClientThatDisconnects(t *testing.T) {
	inEachCell(t, func(t *testing.T, clientEra, backendEra mcp.Era) {
		gone := make(chan struct{})
		url := largeBackend(t, backendEra, func(w http.ResponseWriter, r *http.Request, id string) {
			_, _ = io.WriteString(w, largeHead(backendEra, id)+strings.Repeat("x", largePart))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			close(gone)
		})
		res := bridged(t, url, clientEra)(t)
		if _, err := io.CopyN(io.Discard, res.Body, largePart); err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		select {
		case <-gone:
		case <-time.After(time.Minute):
			t.Error("the backend's connection is still open")
		}
	})
}
