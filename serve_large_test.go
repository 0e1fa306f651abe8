// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/bubble"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
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

// memoryLog is a log in memory.
type memoryLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *memoryLog) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// warnings returns the records of level warning and above, without their time.
func (j *memoryLog) warnings(t *testing.T) []map[string]any {
	t.Helper()
	synctest.Wait() // until all records are written
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []map[string]any
	for line := range bytes.Lines(j.text.Bytes()) {
		var r map[string]any
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		delete(r, slog.TimeKey)
		if r[slog.LevelKey] != slog.LevelInfo.String() {
			all = append(all, r)
		}
	}
	return all
}

// cutGateway is a gateway before a backend with a tool that never completes its
// responses.
type cutGateway struct {
	*gatewaytest.Gateway
	backend *faultyserver.HTTP
	freed   chan struct{} // receives when the connection to the backend was closed
	log     memoryLog
	record  string
	call    *http.Request
}

// withCutGateway runs f in a bubble, in each cell, with a gateway before a backend that
// sends a part of a result and then calls answer.
func withCutGateway(t *testing.T, answer func(x *faultyserver.Exchange), f func(h *cutGateway, client mcp.Era)) {
	t.Helper()
	inEachCell(t, func(t *testing.T, clientEra, backendEra mcp.Era) {
		synctest.Test(t, func(t *testing.T) {
			h := &cutGateway{freed: make(chan struct{}, 1), record: filepath.Join(t.TempDir(), "audit.jsonl")}
			h.backend = &faultyserver.HTTP{Modern: backendEra == mcp.EraModern, On: map[string]func(*faultyserver.Exchange){
				"tools/list": func(x *faultyserver.Exchange) {
					x.Result(`{"tools":[{"name":"large","inputSchema":{"type":"object"}}]}`)
				},
				"tools/call": func(x *faultyserver.Exchange) {
					defer func() { h.freed <- struct{}{} }()
					x.W.Header().Set("Content-Type", "application/json")
					x.Raw(largeHead(backendEra, x.Msg.ID.String()) + strings.Repeat("0123456789", largePart/10))
					answer(x)
				},
			}}
			cfg := config.Config{Servers: []config.Backend{{Name: "b", URL: "http://b/mcp"}}}
			cfg.Audit.File = h.record
			h.Gateway = gatewaytest.Open(t, cfg, signalbox.Options{Transport: gatewaytest.ServeBackends(t, h.backend), Logger: slog.New(slog.NewJSONHandler(&h.log, nil))})
			body, headers := gatewaytest.ModernRequest("1", "tools/call", "b__large", "")
			if clientEra == mcp.EraLegacy {
				body, headers = gatewaytest.LegacyRequest("1", "tools/call", `{"name":"b__large"}`), h.Legacy()
			}
			h.call = h.Request(t.Context(), http.MethodPost, body, headers)
			f(h, clientEra)
		})
	})
}

// begin makes the call and returns its response after a part of it has arrived.
func (h *cutGateway) begin() *http.Response {
	h.T.Helper()
	call := h.call.Clone(h.T.Context())
	call.Body, _ = h.call.GetBody()
	res, err := h.HTTP.Do(call)
	if err != nil {
		h.T.Fatal(err)
	}
	if _, err := io.CopyN(io.Discard, res.Body, largePart/2); err != nil {
		h.T.Fatal(err)
	}
	return res
}

// wantNoTrace checks that the backend is live, that its lists are not fetched again,
// and that nothing of the call is left.
func (h *cutGateway) wantNoTrace() {
	h.T.Helper()
	synctest.Wait()
	status := h.G.Status()
	if b := status.Backends[0]; b.State != "live" || b.Tools != 1 || len(status.Problems) > 0 {
		h.T.Errorf("the backend is %+v, with %q", b, status.Problems)
	}
	if n := h.backend.Count("tools/list"); n != 1 {
		h.T.Errorf("it was asked %d times for its tools, want once", n)
	}
	if n := h.backend.Count("tools/call"); n != 1 {
		h.T.Errorf("it was called %d times, want once", n)
	}
	if in := metricsOf(h.T, h.G)[`signalbox_backend_in_flight{backend="b"}`]; status.InFlight != 0 || in != 0 {
		h.T.Errorf("in flight: %d of clients, %v to the backend; want none", status.InFlight, in)
	}
}

// recorded returns the only line about calls in the record.
func (h *cutGateway) recorded(members ...string) string {
	h.T.Helper()
	if err := h.G.Close(); err != nil {
		h.T.Fatal(err)
	}
	return strings.Join(recordOf(h.T, h.record, members...), "; ")
}

// A backend breaks off a result after its client has received a part. The client
// detects this by its connection (I3), the record does not show the call as successful,
// and the log has one record with the backend, the reason and the cure.
func TestBackendThatCutsALargeResult(t *testing.T) {
	for name, tt := range map[string]struct {
		answer        func(x *faultyserver.Exchange)
		reason, cause string
	}{
		"it dies": {(*faultyserver.Exchange).Abort, "the connection broke during its answer", "unexpected EOF"},
		"it ends too soon": {
			func(*faultyserver.Exchange) {},
			"its answer breaks the protocol: ", "the JSON text ends too early",
		},
		"its text turns wrong": {
			func(x *faultyserver.Exchange) { x.Raw("\x01" + largeEnd) },
			"its answer breaks the protocol: ", "control character",
		},
		"it has a long number": {
			func(x *faultyserver.Exchange) { x.Raw(`"}],"n":` + strings.Repeat("1", 100_000) + "}}") },
			"its answer breaks the protocol: a name or a number does not fit into 64512 bytes at byte ", "send a shorter one",
		},
	} {
		t.Run(name, func(t *testing.T) {
			withCutGateway(t, tt.answer, func(h *cutGateway, _ mcp.Era) {
				res := h.begin()
				defer res.Body.Close()
				if _, err := io.ReadAll(res.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
					h.T.Errorf("the answer ended with %v, want io.ErrUnexpectedEOF", err)
				}
				h.wantNoTrace()
				log := h.log.warnings(h.T)
				if len(log) != 1 {
					h.T.Fatalf("the log has %d warnings, want one: %v", len(log), log)
				}
				for key, want := range map[string]string{
					"level": "WARN", "backend": "b", "reason": tt.reason, "cause": tt.cause,
					"msg": "backend's response broke off while it was forwarded, and the client's response was cut off; look at the backend's own log",
				} {
					if got, _ := log[0][key].(string); !strings.Contains(got, want) {
						h.T.Errorf("the log has %s %q, want %q", key, got, want)
					}
				}
				if got, want := h.recorded("name", "backend", "outcome", "code", "delivery"), "b__large b failed 1002 unknown"; got != want {
					h.T.Errorf("the record has %q, want %q", got, want)
				}
			})
		})
	}
}

// endless sends until the client has disconnected.
func endless(x *faultyserver.Exchange) {
	for x.R.Context().Err() == nil {
		x.Raw(strings.Repeat("x", 32<<10))
	}
}

// A client disconnects in the middle of a result, or stops reading it. The connection
// to the backend is closed at once, or after the write timeout. The backend is not at
// fault: neither log nor record blame it.
func TestClientThatCancelsALargeResult(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(x *faultyserver.Exchange)
		leave  func(res *http.Response)
		within time.Duration
	}{
		"it leaves while nothing comes": {(*faultyserver.Exchange).Hold, func(res *http.Response) { res.Body.Close() }, 0},
		"it leaves while more comes":    {endless, func(res *http.Response) { res.Body.Close() }, 0},
		"it stops to read":              {endless, func(*http.Response) {}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			withCutGateway(t, tt.answer, func(h *cutGateway, client mcp.Era) {
				res := h.begin()
				defer res.Body.Close()
				began := time.Now()
				tt.leave(res)
				<-h.freed
				if took := time.Since(began); took > tt.within {
					h.T.Errorf("the backend's connection was let go after %v, want %v at most", took, tt.within)
				}
				h.wantNoTrace()
				if log := h.log.warnings(h.T); len(log) > 0 {
					h.T.Errorf("the log has %v, want no warnings", log)
				}
				// Whether a write or the connection detects first that the client of a
				// modern request has left decides about the delivery, and about nothing
				// else.
				want, members := "b__large b cancelled 1002", []string{"name", "backend", "outcome", "code"}
				if client == mcp.EraLegacy {
					want, members = want+" completed", append(members, "delivery")
				}
				if got := h.recorded(members...); got != want {
					h.T.Errorf("the record has %q, want %q", got, want)
				}
			})
		})
	}
}

// Whichever side breaks off a large result, and however: afterwards there are no more
// goroutines than after the first one, nothing is in flight, and the backend is called
// once for each call (I28).
func TestNothingIsLeftOfLargeResults(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(x *faultyserver.Exchange)
		end    func(res *http.Response)
	}{
		"the backend dies":         {(*faultyserver.Exchange).Abort, func(res *http.Response) { _, _ = io.Copy(io.Discard, res.Body) }},
		"the client leaves":        {(*faultyserver.Exchange).Hold, func(*http.Response) {}},
		"the client stops to read": {endless, func(*http.Response) { time.Sleep(time.Minute) }},
	} {
		t.Run(name, func(t *testing.T) {
			withCutGateway(t, tt.answer, func(h *cutGateway, _ mcp.Era) {
				var first, last int
				for n := range 4 {
					res := h.begin()
					tt.end(res)
					res.Body.Close()
					<-h.freed
					time.Sleep(5 * time.Second) // goroutines kept for reuse end
					soon, in := bubble.Goroutines(h.T), h.G.Status().InFlight
					time.Sleep(2 * time.Minute) // idle connections end
					later := bubble.Goroutines(h.T)
					if n == 0 {
						first, last = soon, later
					}
					// One connection is kept for the next call, or was just broken by
					// this one.
					if soon > first+1 || later > last || in > 0 {
						h.T.Fatalf("after %d calls: %d goroutines, which were %d, then %d, which were %d, and %d in flight", n+1, soon, first, later, last, in)
					}
				}
				if n := h.backend.Count("tools/call"); n != 4 {
					h.T.Errorf("the backend was called %d times, want 4", n)
				}
			})
		})
	}
}

// The id of a task in the _meta of a large result is the server's own, which no client knows.
// It is omitted when it comes after the members that have been passed on.
func TestRelatedTaskOfLargeResult(t *testing.T) {
	result := `"content":[{"type":"text","text":"` + strings.Repeat("x", largePart) + `"}],` +
		`"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"of-the-server"},"own":1}}`
	for behind, head := range map[string]string{"legacy": "{", "modern": `{"resultType":"complete",`} {
		synctest.Test(t, func(t *testing.T) {
			s := gatewaytest.ServerWithTools(behind == "modern", "large")
			s.On["tools/call"] = gatewaytest.ResultHandler(head + result)
			h := gatewaytest.Backends{"b": s}.Open(t, nil)
			for era, got := range map[string]string{
				"legacy": h.Post(gatewaytest.LegacyRequest("1", "tools/call", `{"name":"b__large"}`), h.Legacy()).Body,
				"modern": h.PostModern("1", "tools/call", "b__large", "").Body,
			} {
				if len(got) < largePart || !strings.Contains(got, `"own":1`) || strings.Contains(got, "related-task") {
					t.Errorf("%s to %s: %d bytes, which end with %s", era, behind, len(got), got[max(0, len(got)-200):])
				}
			}
		})
	}
}
