// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// silentCaller is a Caller that accepts everything and answers nothing.
type silentCaller struct{}

func (silentCaller) Notify(context.Context, *mcp.Notification) error { return nil }

func (silentCaller) Start(context.Context, *mcp.Request) (func() (*mcp.Result, error), error) {
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no client to ask")
}

func (silentCaller) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

// faulty is a server with one fault, and its transport.
type faulty struct {
	http  *faultyserver.HTTP
	lines *faultyserver.Lines
	via   http.RoundTripper // instead of a connection to http
}

// call sends a tools/call as a client does, which names its tool.
func call(t *testing.T, c *client.Client, logger *slog.Logger) error {
	t.Helper()
	b := backend.New(backend.Config{Name: "notes", Handler: c, Logger: logger})
	req, err := mcp.NewRequest("tools/call", []byte(`{"name":"x","arguments":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Client = &mcp.Peer{Info: []byte(`{"name":"test","version":"1"}`)}
	_, err = b.Serve(t.Context(), req, silentCaller{})
	return err
}

// dial returns a client of the server. Both are closed at the end of the test.
func (f *faulty) dial(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	cfg.Name = "notes"
	if f.lines != nil {
		return f.dialLines(t, cfg)
	}
	ln := memnet.Listen()
	srv := &http.Server{Handler: f.http, ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }() // ends with srv.Close below
	tr := ln.HTTP1()
	cfg.Transport = tr
	if f.via != nil {
		cfg.Transport = f.via
	}
	c := client.NewHTTP("http://notes.test/mcp", cfg)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		tr.CloseIdleConnections()
		srv.Close()
		<-done
	})
	return c
}

func (f *faulty) dialLines(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	var wg sync.WaitGroup
	c := client.NewPipe(func(context.Context) (io.ReadWriteCloser, error) {
		a, b := memnet.Pipe(1 << 20)
		wg.Go(func() { f.lines.Serve(b) }) // ends when the client closes its end; waited for below
		return a, nil
	}, cfg)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
	return c
}

func onHTTP(method string, answer func(*faultyserver.Exchange)) *faulty {
	return &faulty{http: &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){method: answer}}}
}

func onLegacyHTTP(answers map[string]func(*faultyserver.Exchange)) *faulty {
	return &faulty{http: &faultyserver.HTTP{Sessions: true, On: answers}}
}

func onLines(method string, answer func(*faultyserver.Line)) *faulty {
	return &faulty{lines: &faultyserver.Lines{Modern: true, On: map[string]func(*faultyserver.Line){method: answer}}}
}

// failing is a transport that reaches nothing.
type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// Each fault of a server ends the call with an error that names the server, the cause,
// whether the call may have run, and the setting that decides it, if there is one. The
// texts are read by users and models, so they are written here in full.
func TestFaultsInWords(t *testing.T) {
	const notSent, mayHaveRun = "; the request was not sent", "; the request may have been executed"
	hold := func(x *faultyserver.Exchange) { x.Hold() }
	big := strings.Repeat("x", 70<<10)
	for _, tt := range []struct {
		fault  string // its number in the list of faults, and its name
		server *faulty
		want   string // after the name
		within time.Duration
	}{
		{"50 banners without end", onLines("tools/call", func(x *faultyserver.Line) { x.Raw(strings.Repeat("Listening...\n", 100)) }),
			"it wrote 100 lines to its output that are not messages" + mayHaveRun, 0},
		{"51 never answers the handshake", onLegacyHTTP(map[string]func(*faultyserver.Exchange){"initialize": hold}),
			"it did not answer initialize within 30s (limits.handshake)" + notSent, 30 * time.Second},
		{"51 never answers anything", onLegacyHTTP(map[string]func(*faultyserver.Exchange){"server/discover": hold, "initialize": hold}),
			"it did not answer initialize within 30s (limits.handshake)" + notSent, 30 * time.Second},
		{"51 refuses the handshake", onLegacyHTTP(map[string]func(*faultyserver.Exchange){"initialize": func(x *faultyserver.Exchange) { x.Status(500, "text/plain", "") }}),
			"initialize failed: it answered with HTTP status 500 with text/plain" + notSent, 0},
		{"52 HTML", onHTTP("tools/call", func(x *faultyserver.Exchange) { x.Status(200, "text/html", "<html>") }),
			"it answered with text/html instead of a message (HTTP status 200)" + mayHaveRun, 0},
		{"52 a page to log in at", onHTTP("tools/call", func(x *faultyserver.Exchange) {
			x.W.Header().Set("Location", "https://login.test/")
			x.Status(302, "text/html", "")
		}), "it redirects to another path of \"https://login.test\" (HTTP status 302), which is not followed" + notSent, 0},
		{"52 a balancer without its server", onHTTP("tools/call", func(x *faultyserver.Exchange) { x.Status(502, "text/html", "<html>") }),
			"it answered with HTTP status 502 with text/html" + mayHaveRun, 0},
		{"55 no such name", &faulty{via: failing{&net.DNSError{Err: "no such host", IsNotFound: true}}},
			"the name of its host is not known (DNS)" + notSent, time.Second},
		{"55 nobody there", &faulty{via: failing{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}},
			"connection refused" + notSent, time.Second},
		{"55 no way there", &faulty{via: failing{&net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}}},
			"its host is unreachable" + notSent, time.Second},
		{"56 hangs in the call", onHTTP("tools/call", hold),
			"no response or progress for 1m0s (limits.callIdle)" + mayHaveRun, time.Minute},
		{"56 hangs in the call, on a pipe", onLines("tools/call", func(*faultyserver.Line) {}),
			"no response or progress for 1m0s (limits.callIdle)" + mayHaveRun, time.Minute},
		{"57 progress without end", onHTTP("tools/call", func(x *faultyserver.Exchange) {
			for x.R.Context().Err() == nil {
				x.Event("", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`)
				select {
				case <-x.R.Context().Done():
				case <-time.After(30 * time.Second):
				}
			}
		}), "no response within 10m0s (limits.callMax)" + mayHaveRun, 10 * time.Minute},
		{"58 breaks the connection", onHTTP("tools/call", func(x *faultyserver.Exchange) { x.Begin(); x.Abort() }),
			"the connection broke during its answer" + mayHaveRun, 0},
		{"58 breaks it before the answer", onHTTP("tools/call", func(x *faultyserver.Exchange) { x.Abort() }),
			"the connection broke" + mayHaveRun, 0},
		{"58 ends its answer early", onHTTP("tools/call", func(x *faultyserver.Exchange) { x.Begin() }),
			"its answer ended without a response" + mayHaveRun, 0},
		{"58 closes its pipe", onLines("tools/call", func(x *faultyserver.Line) { x.Close() }),
			"it closed the connection" + mayHaveRun, 0},
		{"60 an id of another type", onHTTP("tools/call", func(x *faultyserver.Exchange) {
			x.Status(200, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":"%s","result":{}}`, x.Msg.ID))
		}), "its answer ended without a response" + mayHaveRun, 0},
		{"61 null for a result", onHTTP("tools/call", func(x *faultyserver.Exchange) {
			x.Status(200, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":null}`, x.Msg.ID))
		}), `its answer breaks the protocol: member "result" is null at byte 42; send an object` + mayHaveRun, 0},
		{"61 null for an error", onLines("tools/call", func(x *faultyserver.Line) {
			x.Send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":null}`, x.Msg.ID))
		}), `its answer breaks the protocol: member "error" is null at byte 41; send an object` + mayHaveRun, 0},
		{"62 a message too large", onHTTP("tools/call", func(x *faultyserver.Exchange) { x.Status(200, "application/json", `{"x":"`+big+`"}`) }),
			"it sent a message of more than 65536 bytes (limits.backendMessage)" + mayHaveRun, 0},
		{"62 a line too large", onLines("tools/call", func(x *faultyserver.Line) { x.Raw(big) }),
			"it sent a message of more than 65536 bytes (limits.backendMessage)" + mayHaveRun, 0},
		{"63 compressed", onHTTP("tools/call", func(x *faultyserver.Exchange) {
			x.W.Header().Set("Content-Encoding", "gzip")
			x.Status(200, "application/json", "\x1f\x8b")
		}), "its answer is compressed (gzip), which was not requested" + mayHaveRun, 0},
		{"72 forgets every session", onLegacyHTTP(map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) { x.Status(404, "", "") }}),
			"it has ended the session" + notSent, 0},
		{"75 wants other credentials", onHTTP("tools/call", func(x *faultyserver.Exchange) { x.Status(401, "", "") }),
			"it rejected our credentials, or requires some (HTTP status 401)" + notSent, 0},
		{"75 wants more of them", onHTTP("tools/call", func(x *faultyserver.Exchange) { x.Status(403, "", "") }),
			"our credentials are not sufficient (HTTP status 403)" + notSent, 0},
		{"busy", onHTTP("tools/call", func(x *faultyserver.Exchange) { x.Status(429, "", "") }),
			"it answered with HTTP status 429" + notSent, time.Second},
		{"no common revision", onHTTP("server/discover", func(x *faultyserver.Exchange) { x.Result(`{"supportedVersions":["2099-01-01"],"capabilities":{}}`) }),
			`it supports no revision that is known here (["2099-01-01"])` + notSent, 0},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := tt.server.dial(t, client.Config{MaxMessage: 64 << 10})
				began := time.Now()
				err := call(t, c, nil)
				took := time.Since(began)
				if err == nil || err.Error() != `backend "notes": `+tt.want {
					t.Errorf("error\n got %v\nwant backend \"notes\": %s", err, tt.want)
				}
				if took > tt.within+time.Second || tt.within > time.Second && took < tt.within {
					t.Errorf("after %v, want %v", took, tt.within)
				}
			})
		})
	}
}

// The state of a server on a status page has the same text as the errors of its calls,
// and is about that server only.
func TestFaultsInStatus(t *testing.T) {
	for _, tt := range []struct {
		fault  string
		server *faulty
		want   string
	}{
		{"51", onLegacyHTTP(map[string]func(*faultyserver.Exchange){"initialize": func(x *faultyserver.Exchange) { x.Hold() }}), "it did not answer initialize within 30s (limits.handshake)"},
		{"52", onLegacyHTTP(map[string]func(*faultyserver.Exchange){"initialize": func(x *faultyserver.Exchange) { x.Status(502, "text/html", "<html>") }}), "initialize failed: it answered with HTTP status 502"},
		{"55", &faulty{via: failing{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}}, "connection refused"},
		{"61", onHTTP("tools/list", func(x *faultyserver.Exchange) { x.Result(`{"tools":7}`) }), "tools/list: tools"},
		{"75", onHTTP("server/discover", func(x *faultyserver.Exchange) { x.Status(401, "", "") }), "it rejected our credentials, or requires some (HTTP status 401)"},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				changed := make(chan struct{}, 1)
				b := backend.New(backend.Config{Name: "notes", Handler: tt.server.dial(t, client.Config{}), Changed: func() {
					select {
					case changed <- struct{}{}:
					default:
					}
				}})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { // ends with ctx; waited for below
					defer close(done)
					b.Run(ctx)
				}()
				began := time.Now()
				<-changed
				if took := time.Since(began); took > 31*time.Second {
					t.Errorf("the first word came after %v", took)
				}
				if o := b.Offer(); o.State != backend.Down || !strings.Contains(o.Reason, tt.want) {
					t.Errorf("state %v, reason %q; want %v because %q", o.State, o.Reason, backend.Down, tt.want)
				}
				cancel()
				<-done
			})
		})
	}
}

// Results and errors are the client's data: they are forwarded unmodified, and are not
// in any log (fault 81).
func TestFault81ResultsAreNotLogged(t *testing.T) {
	const secret = "sk-live-0123456789abcdef"
	for name, server := range map[string]*faulty{
		"result": onHTTP("tools/call", func(x *faultyserver.Exchange) { x.Result(`{"content":[{"type":"text","text":"` + secret + `"}]}`) }),
		"error":  onHTTP("tools/call", func(x *faultyserver.Exchange) { x.Error(-32000, "denied for "+secret) }),
		"malformed": onHTTP("tools/call", func(x *faultyserver.Exchange) {
			x.Status(200, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"k":"%s"},"error":{}}`, x.Msg.ID, secret))
		}),
		"stray": onHTTP("tools/call", func(x *faultyserver.Exchange) {
			x.Event("", `{"jsonrpc":"2.0","id":"q","result":{"k":"`+secret+`"}}`)
			x.Response("{}")
		}),
		"on a pipe": onLines("tools/call", func(x *faultyserver.Line) { x.Error(-32000, "denied for "+secret) }),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var text strings.Builder
				logger := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
				err := call(t, server.dial(t, client.Config{Logger: logger}), logger)
				if strings.Contains(name, "error") && (err == nil || !strings.Contains(err.Error(), secret)) {
					t.Errorf("the error was changed: %v", err)
				}
				if strings.Contains(text.String(), secret) {
					t.Errorf("the log has it:\n%s", text.String())
				}
			})
		})
	}
}
