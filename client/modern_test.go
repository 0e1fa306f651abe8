// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// The request metadata of the modern era, in headers and in _meta (2026-07-28,
// basic/transports/streamable-http, "Request Metadata").
//
// H2+ 2026-07-28 basic/transports/streamable-http: "Every POST request to the MCP
// endpoint MUST include an MCP-Protocol-Version header."
//
// H3+ 2026-07-28 basic/transports/streamable-http: "Append the Mcp-Method header and,
// if applicable, Mcp-Name header to the request."
func TestH2H3ModernMetadata(t *testing.T) {
	tests := []struct {
		name    string
		req     *mcp.Request
		headers map[string]string
		meta    string
	}{
		{
			"a tool", request(t, "tools/call", `{"name":"x","_meta":{"vendor/k":1}}`),
			map[string]string{"Mcp-Method": "tools/call", "Mcp-Name": "x"}, `"vendor/k":1`,
		},
		{
			"a name that no header can hold", request(t, "prompts/get", `{"name":" \u4e16 "}`),
			map[string]string{"Mcp-Method": "prompts/get", "Mcp-Name": "=?base64?IOS4liA=?="}, "",
		},
		{
			"a resource", request(t, "resources/read", `{"uri":"file:///a"}`),
			map[string]string{"Mcp-Method": "resources/read", "Mcp-Name": "file:///a"}, "",
		},
		{
			"no name", request(t, "tools/list", ""),
			map[string]string{"Mcp-Method": "tools/list", "Mcp-Name": ""}, "",
		},
		{
			"a log level", func() *mcp.Request {
				r := request(t, "tools/call", `{"name":"x"}`)
				r.LogLevel = mcp.LogWarning
				r.Client = &mcp.Peer{Capabilities: []byte(`{"roots":{}}`)}
				return r
			}(),
			map[string]string{"Mcp-Name": "x"}, `"io.modelcontextprotocol/logLevel":"warning"`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := &faultyserver.HTTP{Modern: true}
				c := dialHTTP(t, s, client.Config{
					Info:   []byte(`{"name":"gateway"}`),
					Header: http.Header{"authorization": {"secret"}, "Mcp-Name": {"forged"}, "Accept": {"*/*"}},
				})
				if _, err := within(t, c, tt.req, &recorder{}); err != nil && !errors.Is(err, &mcp.Error{Code: -32601}) {
					t.Fatal(err)
				}
				got := last(s, tt.req.Method)
				for _, k := range slices.Sorted(maps.Keys(tt.headers)) {
					if k == "Mcp-Name" && tt.headers[k] == "" {
						continue
					}
					if v := got.Header.Values(k); len(v) != 1 || v[0] != tt.headers[k] {
						t.Errorf("header %s: %q, want %q", k, v, tt.headers[k])
					}
				}
				for k, want := range map[string]string{
					"Accept": "application/json, text/event-stream", "Content-Type": "application/json",
					"Mcp-Protocol-Version": "2026-07-28", "Authorization": "secret", "Mcp-Session-Id": "", "Idempotency-Key": "",
				} {
					if v := got.Header.Get(k); v != want {
						t.Errorf("header %s: %q, want %q", k, v, want)
					}
				}
				info := `{"name":"test","version":"1"}`
				caps := "{}"
				if tt.req.Client.Info == nil {
					info, caps = `{"name":"gateway"}`, `{"roots":{}}`
				}
				for _, want := range []string{
					`"io.modelcontextprotocol/protocolVersion":"2026-07-28"`, `"io.modelcontextprotocol/clientInfo":` + info,
					`"io.modelcontextprotocol/clientCapabilities":` + caps, tt.meta,
				} {
					if !strings.Contains(got.Body, want) {
						t.Errorf("body %s\nhas no %s", got.Body, want)
					}
				}
			})
		})
	}
}

// Arguments that a tool declares as headers are sent there. An outdated list is read
// again when the server asks for that (requirement H10).
//
// H10+ 2026-07-28 basic/transports/streamable-http: "the client SHOULD call tools/list
// to check for changes to the tool's inputSchema, then retry the original request with
// the appropriate headers."
func TestH10ParamHeaders(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		header := "Region"
		list := func() string {
			return `{"tools":[{"name":"plain","inputSchema":{"type":"object"}},{"name":"q","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"` + header + `"}}}}]}`
		}
		s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){}}
		s.On["tools/list"] = func(x *faultyserver.Exchange) { x.Result(list()) }
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			if x.R.Header.Get("Mcp-Param-"+header) != "eu" {
				x.Status(400, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32020,"message":"Header mismatch"}}`, x.Msg.ID))
				return
			}
			x.Polite()
		}
		c := dialHTTP(t, s, client.Config{})
		call := func() error {
			_, err := within(t, c, request(t, "tools/call", `{"name":"q","arguments":{"region":"eu"}}`), &recorder{})
			return err
		}
		if err := call(); err != nil {
			t.Errorf("the first call, nothing listed yet: %v", err)
		}
		header = "Zone"
		if err := call(); err != nil {
			t.Errorf("after a change: %v", err)
		}
		if calls, lists := s.Count("tools/call"), s.Count("tools/list"); calls != 4 || lists != 2 {
			t.Errorf("%d calls and %d lists, want 4 and 2", calls, lists)
		}
		_, err := within(t, c, request(t, "tools/call", `{"name":"q","arguments":{}}`), &recorder{})
		wantError(t, err, mcp.CodeHeaderMismatch)
	})
}

// input_required: the caller receives the requests, and its responses and the state are
// sent with the original parameters (2026-07-28, basic/patterns/mrtr).
//
// Q4+ 2026-07-28 basic/patterns/mrtr: "the client MUST echo back the exact value of
// that field when retrying the original request."
func TestMRTR(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){}}
		s.On["tools/call"] = func(x *faultyserver.Exchange) {
			switch string(x.Msg.Params.Raw(mcp.FieldRequestState)) {
			case "":
				x.Result(`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"?"}},"b":{"method":"roots/list"}},"requestState":"s\u0031"}`)
			case `"s\u0031"`:
				x.Result(`{"resultType":"input_required","requestState":"s2"}`)
			default:
				x.Result(`{"resultType":"complete","content":[]}`)
			}
		}
		c := dialHTTP(t, s, client.Config{})
		caller := &recorder{answer: respondWith(`{"ok":1.0}`)}
		res, err := within(t, c, request(t, "tools/call", `{"name":"x","arguments":{"k":1.0}}`), caller)
		wantResult(t, res, err, `{"resultType":"complete","content":[]}`)
		asked := caller.asked()
		slices.Sort(asked)
		wantStrings(t, "asks", asked, []string{"elicitation/create", "roots/list"})
		seen := s.Seen()
		second, third := seen[len(seen)-2].Body, seen[len(seen)-1].Body
		for _, want := range []string{`"inputResponses":{"a":{"ok":1.0},"b":{"ok":1.0}}`, `"requestState":"s\u0031"`, `"arguments":{"k":1.0}`} {
			if !strings.Contains(second, want) {
				t.Errorf("second round %s\nhas no %s", second, want)
			}
		}
		if strings.Contains(third, "inputResponses") || !strings.Contains(third, `"requestState":"s2"`) {
			t.Errorf("third round %s", third)
		}

		req := request(t, "tools/call", `{"name":"x"}`)
		req.TakesInputRequired = true
		if res, err = within(t, c, req, caller); err != nil || res.Type() != mcp.ResultInputRequired {
			t.Errorf("a caller that takes input_required got %v, %v", res, err)
		}
	})
}

// Input requests that fail end the request with the reason. A server that asks without
// end is stopped.
//
// Q9- own: "The number of times that one request may ask for more input is limited."
func TestMRTREnds(t *testing.T) {
	tests := []struct {
		name   string
		result string
		check  func(t *testing.T, err error)
	}{
		{"refused", `{"resultType":"input_required","inputRequests":{"a":{"method":"sampling/createMessage","params":{}}}}`, func(t *testing.T, err error) {
			wantError(t, err, mcp.CodeMethodNotFound)
		}},
		{"for ever", `{"resultType":"input_required","requestState":"again"}`, func(t *testing.T, err error) {
			wantFault(t, err, mcp.CodeLimit, mcp.Unknown, "10 times")
		}},
		{"nothing asked", `{"resultType":"input_required"}`, func(t *testing.T, err error) {
			wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "without inputRequests")
		}},
		{"nonsense asked", `{"resultType":"input_required","inputRequests":[]}`, func(t *testing.T, err error) {
			wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "breaks the protocol")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				n := 0
				s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
					if n++; n > 100 { // if nothing else ends it
						x.Polite()
						return
					}
					x.Result(tt.result)
				}}}
				_, err := within(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{})
				tt.check(t, err)
			})
		})
	}
}

// Cancelling a modern request over HTTP closes its stream and sends nothing
// (basic/patterns/cancellation).
//
// C2- 2026-07-28 basic/patterns/cancellation: "No `notifications/cancelled` message is
// required or expected."
func TestModernCancelClosesTheStream(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gone, arrived := make(chan struct{}), make(chan struct{})
		s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
			x.Begin()
			close(arrived)
			x.Hold()
			close(gone)
		}}}
		call := launch(t, dialHTTP(t, s, client.Config{}), echo(t), &recorder{})
		<-arrived
		synctest.Wait()
		began := time.Now()
		call.cancel()
		<-call.done
		<-gone
		if took := time.Since(began); took > 0 || s.Count("notifications/cancelled") != 0 {
			t.Errorf("took %v, %d notices", took, s.Count("notifications/cancelled"))
		}
	})
}

// A slow caller slows down only its own stream. Nothing of it is lost, and the response
// is still last.
func TestSlowCallerOverHTTP(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const n = 2000
		s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
			for i := range n {
				x.Event("", fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}`, i))
			}
			x.Response(`{"content":[]}`)
		}}}
		c := dialHTTP(t, s, client.Config{})
		caller := &recorder{block: make(chan struct{})}
		call := launch(t, c, echo(t), caller)
		synctest.Wait()
		if res, err := within(t, c, request(t, "server/discover", ""), &recorder{}); res == nil {
			t.Errorf("another request: %v", err)
		}
		close(caller.block)
		call.wantResult(t, `{"content":[]}`)
		if got := caller.notifications(); len(got) != n || got[n-1] != fmt.Sprintf(`message {"level":"info","data":%d}`, n-1) {
			t.Errorf("%d notifications", len(got))
		}
	})
}

// An invalid response is reported as what it is (faults 52, 61, 62, 63; J6).
//
// J6- 2026-07-28 basic/index: "Result responses **MUST** include a `result` field."
func TestHostileAnswers(t *testing.T) {
	big := strings.Repeat("x", 1<<16)
	tests := []struct {
		name    string
		answer  func(x *faultyserver.Exchange)
		code    int64
		outcome mcp.Outcome
		text    string
	}{
		{"HTML", func(x *faultyserver.Exchange) { x.Status(200, "text/html", "<html>") }, mcp.CodeBackendFailed, mcp.Unknown, "text/html instead of a message"},
		{"no type", func(x *faultyserver.Exchange) { x.Status(200, "", "") }, mcp.CodeBackendFailed, mcp.Unknown, "instead of a message"},
		{"redirect", func(x *faultyserver.Exchange) {
			x.W.Header().Set("Location", "http://user:word@elsewhere.test/secret?key=secret")
			x.Status(302, "text/html", "")
		}, mcp.CodeBackendUnavailable, mcp.NotDispatched, `it redirects to another path of "http://elsewhere.test" (HTTP status 302)`},
		{"308", func(x *faultyserver.Exchange) {
			x.W.Header().Set("Location", x.R.URL.Path+"/")
			x.Status(308, "", "")
		}, mcp.CodeBackendUnavailable, mcp.NotDispatched, "it redirects to the same URL with a trailing slash (HTTP status 308)"},
		{"no place", func(x *faultyserver.Exchange) { x.Status(302, "", "") }, mcp.CodeBackendUnavailable, mcp.NotDispatched, "it redirects to nowhere"},
		{"307", func(x *faultyserver.Exchange) {
			x.W.Header().Set("Location", "/mcp")
			x.Status(307, "", "")
		}, mcp.CodeBackendUnavailable, mcp.NotDispatched, `it redirects to "http://backend.test" (HTTP status 307)`},
		{"bad gateway", func(x *faultyserver.Exchange) { x.Status(502, "text/html", "<html>") }, mcp.CodeBackendFailed, mcp.Unknown, "HTTP status 502 with text/html"},
		{"credentials", func(x *faultyserver.Exchange) { x.Status(401, "", "") }, mcp.CodeBackendUnavailable, mcp.NotDispatched, "rejected our credentials"},
		{"neither result nor error", func(x *faultyserver.Exchange) {
			x.Status(200, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s}`, x.Msg.ID))
		}, mcp.CodeBackendFailed, mcp.Unknown, "breaks the protocol"},
		{"both", func(x *faultyserver.Exchange) {
			x.Status(200, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{},"error":{"code":1,"message":""}}`, x.Msg.ID))
		}, mcp.CodeBackendFailed, mcp.Unknown, "breaks the protocol"},
		{"result null", func(x *faultyserver.Exchange) {
			x.Status(200, "application/json", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":null}`, x.Msg.ID))
		}, mcp.CodeBackendFailed, mcp.Unknown, "breaks the protocol"},
		{"error code a string", func(x *faultyserver.Exchange) {
			x.Event("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":"1","message":""}}`, x.Msg.ID))
		}, mcp.CodeBackendFailed, mcp.Unknown, "breaks the protocol"},
		{"error code a fraction", func(x *faultyserver.Exchange) {
			x.Event("", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":1.5,"message":""}}`, x.Msg.ID))
		}, mcp.CodeBackendFailed, mcp.Unknown, "breaks the protocol"},
		{"a huge document", func(x *faultyserver.Exchange) { x.Status(200, "application/json", `{"x":"`+big+`"}`) }, mcp.CodeLimit, mcp.Unknown, "more than 65536 bytes"},
		{"a huge event", func(x *faultyserver.Exchange) { x.Event("", `{"x":"`+big+`"}`) }, mcp.CodeLimit, mcp.Unknown, "more than 65536 bytes"},
		{"an endless line", func(x *faultyserver.Exchange) {
			x.Begin()
			for x.R.Context().Err() == nil {
				x.Raw("data: " + big)
			}
		}, mcp.CodeLimit, mcp.Unknown, "more than 65536 bytes"},
		{"compressed", func(x *faultyserver.Exchange) {
			x.W.Header().Set("Content-Encoding", "gzip")
			x.Status(200, "application/json", "\x1f\x8b")
		}, mcp.CodeBackendFailed, mcp.Unknown, "compressed (gzip)"},
		{"compressed and silent about it", func(x *faultyserver.Exchange) { x.Status(200, "application/json", "\x1f\x8b\x08") }, mcp.CodeBackendFailed, mcp.Unknown, "ended without a response"},
		{"half a document", func(x *faultyserver.Exchange) {
			x.W.Header().Set("Content-Length", "100")
			x.Status(200, "application/json", `{"jsonrpc"`)
		}, mcp.CodeBackendFailed, mcp.Unknown, "broke"},
	}
	for _, tt := range tests {
		for _, modern := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/modern=%v", tt.name, modern), func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					s := &faultyserver.HTTP{Modern: modern, On: map[string]func(*faultyserver.Exchange){"tools/call": tt.answer}}
					c := dialHTTP(t, s, client.Config{MaxMessage: 1 << 16})
					began := time.Now()
					_, err := within(t, c, echo(t), &recorder{})
					wantFault(t, err, tt.code, tt.outcome, tt.text)
					if s.Count("tools/call") != 1 || time.Since(began) > time.Second {
						t.Errorf("%d calls in %v", s.Count("tools/call"), time.Since(began))
					}
				})
			})
		}
	}
}

// What is sent again, and what never is (DELIVERY 5.4).
func TestRetries(t *testing.T) {
	dispatched := func(x *faultyserver.Exchange) { x.Begin() } // ends without a response
	refused := func(x *faultyserver.Exchange) {
		x.W.Header().Set("Retry-After", "1")
		x.Status(503, "", "")
	}
	broken := func(x *faultyserver.Exchange) {
		x.Status(503, "", "upstream connect error or disconnect/reset before headers")
	}
	flooded := func(x *faultyserver.Exchange) { x.Status(429, "", "") }
	answered := func(x *faultyserver.Exchange) { x.Error(-32603, "no") }
	tests := []struct {
		method, params string
		answer         func(x *faultyserver.Exchange)
		want           int
	}{
		{"tools/call", `{"name":"x"}`, dispatched, 1},
		{"tools/call", `{"name":"x"}`, refused, 3},
		{"tools/call", `{"name":"x"}`, flooded, 3},
		{"tools/call", `{"name":"x"}`, broken, 1},
		{"tools/list", "", broken, 3},
		{"tools/call", `{"name":"x"}`, answered, 1},
		{"tools/list", "", dispatched, 2},
		{"tools/list", "", answered, 1},
		{"resources/read", `{"uri":"a:b"}`, dispatched, 2},
		{"resources/read", `{"uri":"a:b","requestState":"s"}`, dispatched, 1},
		{"prompts/get", `{"name":"x","inputResponses":{}}`, dispatched, 1},
		{"tasks/update", `{"taskId":"x"}`, dispatched, 1},
		{"vendor/method", "", dispatched, 1},
	}
	for _, tt := range tests {
		inBubble(t, func(t *testing.T) {
			s := &faultyserver.HTTP{Modern: true, On: map[string]func(*faultyserver.Exchange){tt.method: tt.answer}}
			c := dialHTTP(t, s, client.Config{})
			if _, err := within(t, c, request(t, tt.method, tt.params), &recorder{}); err == nil {
				t.Error("no error")
			}
			if got := s.Count(tt.method); got != tt.want {
				t.Errorf("%s %s was sent %d times, want %d", tt.method, tt.params, got, tt.want)
			}
		})
	}
}

// A request that the server has begun is not started over, whatever happens to its
// second round.
func TestSecondRoundFails(t *testing.T) {
	tests := map[string]func(x *faultyserver.Exchange){
		"busy": func(x *faultyserver.Exchange) { x.Status(429, "", "") },
		"era":  func(x *faultyserver.Exchange) { x.Status(400, "text/plain", "no") },
		"gone": func(x *faultyserver.Exchange) { x.Status(404, "text/plain", "no") },
		"dies": func(x *faultyserver.Exchange) { x.Abort() },
		"headers": func(x *faultyserver.Exchange) {
			x.Status(400, "application/json", string(jsonrpc.AppendError(nil, x.Msg.ID, mcp.Errorf(mcp.CodeHeaderMismatch, "no"))))
		},
	}
	for name, second := range tests {
		for _, method := range []string{"tools/call", "prompts/get"} {
			t.Run(name+"/"+method, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					rounds := [2]int{}
					s := &faultyserver.HTTP{Modern: true, On: map[string]func(x *faultyserver.Exchange){method: func(x *faultyserver.Exchange) {
						if x.Msg.Params.Has(mcp.FieldRequestState) {
							rounds[1]++
							second(x)
							return
						}
						rounds[0]++
						x.Result(`{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list","params":{}}},"requestState":"s"}`)
					}}}
					c := dialHTTP(t, s, client.Config{})
					_, err := within(t, c, request(t, method, `{"name":"x"}`), &recorder{answer: respondWith(`{"roots":[]}`)})
					if name == "headers" {
						wantError(t, err, mcp.CodeHeaderMismatch)
					} else {
						wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "")
					}
					want := [2]int{1, 1}
					if name == "busy" {
						want[1] = 3 // it was not processed
					}
					if rounds != want {
						t.Errorf("the rounds were sent %v times, want %v", rounds, want)
					}
				})
			})
		}
	}
}

// Headers that make net/http treat a request as repeatable are sent as configured, and
// do not cause a repetition (DELIVERY 5.4).
func TestConfiguredIdempotencyKey(t *testing.T) {
	for _, key := range []string{"idempotency-key", "X-Idempotency-Key"} {
		inBubble(t, func(t *testing.T) {
			n := 0
			s := &faultyserver.HTTP{Modern: true, On: map[string]func(x *faultyserver.Exchange){"tools/call": func(x *faultyserver.Exchange) {
				if n++; n > 1 {
					x.Abort() // on a connection that was used before
				}
				if x.R.Header.Get(key) != "k" {
					t.Error("the configured header is missing")
				}
				x.Polite()
			}}}
			c := dialHTTP(t, s, client.Config{Header: http.Header{key: {"k"}}})
			if _, err := within(t, c, echo(t), &recorder{}); err != nil {
				t.Fatal(err)
			}
			_, err := within(t, c, echo(t), &recorder{})
			wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "broke")
			if n != 2 {
				t.Errorf("%d executions of 2 calls", n)
			}
		})
	}
}

// Failures to connect have distinct errors, which report that nothing was sent (fault
// 55).
func TestConnectFailures(t *testing.T) {
	tests := []struct {
		err  error
		text string
	}{
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, "connection refused"},
		{&net.OpError{Op: "dial", Err: syscall.EHOSTUNREACH}, "unreachable"},
		{&net.DNSError{IsNotFound: true}, "not known (DNS)"},
		{&net.DNSError{}, "could not be resolved (DNS)"},
		{&net.OpError{Op: "dial", Err: &net.DNSError{IsTimeout: true, IsNotFound: false}}, "could not be resolved"},
		{errors.New("odd"), "no connection"},
	}
	for _, tt := range tests {
		inBubble(t, func(t *testing.T) {
			n := 0
			c := client.NewHTTP("http://backend.test/", client.Config{Name: "b", Transport: roundTripper(func(*http.Request) (*http.Response, error) {
				n++
				return nil, tt.err
			})})
			_, err := within(t, c, echo(t), &recorder{})
			wantFault(t, err, mcp.CodeBackendUnavailable, mcp.NotDispatched, tt.text)
			if n != 3 {
				t.Errorf("%d attempts, want 3", n)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Idle connections to an instance that is gone are not used again (M188).
func TestM188ReplacedBackend(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var replaced atomic.Bool
		s := newStation()
		var closed atomic.Int32
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if replaced.Load() && r.RemoteAddr != "" && r.Header.Get("Mcp-Session-Id") == faultyserver.SessionID {
				closed.Add(1)
				w.WriteHeader(http.StatusNotFound)
				return
			}
			s.ServeHTTP(w, r)
		})
		c := dialHTTP(t, h, client.Config{})
		scope := mcp.NewScope("s", nil)
		defer scope.End()
		for range 2 {
			if _, err := within(t, c, in(scope, echo(t)), &recorder{}); err != nil {
				t.Fatal(err)
			}
		}
		replaced.Store(true)
		res, err := within(t, c, in(scope, echo(t)), &recorder{})
		wantResult(t, res, err, `{"content":[]}`)
		if closed.Load() == 0 || s.Count("initialize") != 2 {
			t.Errorf("%d refusals, %d handshakes", closed.Load(), s.Count("initialize"))
		}
	})
}
