// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// peer is the Handler behind the server at the remote end.
type peer struct {
	cancelled chan struct{}

	mu          sync.Mutex
	subscribers []chan struct{} // one per listen
}

// change notifies every listen that the tools have changed.
func (p *peer) change() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, ear := range p.subscribers {
		ear <- struct{}{}
	}
}

func (p *peer) subscribe() chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	ear := make(chan struct{}, 1)
	p.subscribers = append(p.subscribers, ear)
	return ear
}

func (p *peer) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	switch req.Method {
	case "server/discover":
		return mcp.NewResult([]byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"logging":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"peer","version":"1"}},"instructions":"be kind"}`))
	case "tools/call":
		name, _ := req.Params.Text(mcp.FieldName)
		return p.tool(ctx, name, req, caller)
	case "subscriptions/listen":
		return p.listen(ctx, caller)
	case "logging/setLevel":
		return mcp.NewResult([]byte("{}"))
	default:
		return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no %s here", req.Method)
	}
}

func (p *peer) tool(ctx context.Context, name string, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	switch name {
	case "progress":
		for i := range 3 {
			params := fmt.Sprintf(`{"progressToken":%s,"progress":%d}`, req.Params.Raw(mcp.MetaProgressToken), i)
			if err := notify(ctx, caller, "notifications/progress", params); err != nil {
				return nil, err
			}
		}
		if err := notify(ctx, caller, "notifications/message", `{"level":"warning","data":"done"}`); err != nil {
			return nil, err
		}
	case "ask":
		q, err := mcp.NewRequest("sampling/createMessage", []byte(`{"messages":[],"maxTokens":1}`)) // a method of all revisions
		if err != nil {
			return nil, err
		}
		res, err := mcp.Ask(ctx, caller, q)
		if err != nil {
			return nil, err
		}
		return mcp.NewResult([]byte(`{"content":[],"answer":` + string(res.Raw(mcp.FieldContent)) + `}`))
	case "wait":
		<-ctx.Done()
		p.cancelled <- struct{}{}
		return nil, ctx.Err()
	case "fail":
		return nil, mcp.Errorf(-1050, "as asked")
	}
	return mcp.NewResult([]byte(`{"content":[{"type":"text","text":"1.0e0"}],"x":{"n":1.00}}`))
}

func (p *peer) listen(ctx context.Context, caller mcp.Caller) (*mcp.Result, error) {
	if err := notify(ctx, caller, "notifications/subscriptions/acknowledged", `{"notifications":{"toolsListChanged":true}}`); err != nil {
		return nil, err
	}
	ear := p.subscribe()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ear:
			if err := notify(ctx, caller, "notifications/tools/list_changed", ""); err != nil {
				return nil, err
			}
		}
	}
}

func notify(ctx context.Context, caller mcp.Caller, method, params string) error {
	n, err := mcp.NewNotification(method, []byte(params))
	if err != nil {
		return err
	}
	return caller.Notify(ctx, n)
}

// modes are the ways from this client to this server.
func modes() map[string]func(t *testing.T, p *peer) *client.Client {
	all := map[string]func(t *testing.T, p *peer) *client.Client{}
	for _, v := range []mcp.Version{"", mcp.V20260728, mcp.V20251125, mcp.V20250618, mcp.V20250326, mcp.V20241105} {
		all["http/"+string(v)] = func(t *testing.T, p *peer) *client.Client {
			s := server.New(p, server.Config{AllowedHosts: []string{"*"}})
			c := dialHTTP(t, s, client.Config{Version: v})
			t.Cleanup(func() {
				c.Close()
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			return c
		}
		if v.Era() != mcp.EraModern {
			all["sse/"+string(v)] = func(t *testing.T, p *peer) *client.Client {
				s := server.New(p, server.Config{AllowedHosts: []string{"*"}})
				c := dialSSE(t, s.SSE(), client.Config{Version: v})
				t.Cleanup(func() {
					c.Close()
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
				return c
			}
		}
		all["lines/"+string(v)] = func(t *testing.T, p *peer) *client.Client {
			s := server.New(p, server.Config{AllowedHosts: []string{"*"}})
			var wg sync.WaitGroup
			life := context.WithoutCancel(t.Context())
			c := client.NewPipe(func(context.Context) (io.ReadWriteCloser, error) {
				a, b := memnet.Pipe(1 << 20)
				wg.Go(func() { // ends when the client closes its end; waited for below
					if err := s.ServeStdio(life, b, b); err != nil {
						t.Logf("ServeStdio: %v", err)
					}
					b.Close()
				})
				return a, nil
			}, client.Config{Name: "b", Version: v})
			t.Cleanup(func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				wg.Wait()
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			return c
		}
	}
	return all
}

// This client and this server work together over every transport and revision: results
// byte for byte, errors, progress with the caller's own token, log messages, requests
// of the server, cancellation, changes.
func TestPeer(t *testing.T) {
	for name, dial := range modes() {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := &peer{cancelled: make(chan struct{}, 1)}
				c := dial(t, p)
				scope := mcp.NewScope("s", nil)
				defer scope.End()
				call := func(tool string, caller mcp.Caller) (*mcp.Result, error) {
					req := in(scope, request(t, "tools/call", `{"name":"`+tool+`","_meta":{"progressToken":"tok"}}`))
					req.LogLevel = mcp.LogInfo
					req.Client.Capabilities = []byte(`{"sampling":{}}`)
					return within(t, c, req, caller)
				}
				modern := false
				if got, err := c.Probe(t.Context()); err != nil || string(got.Info) != `{"name":"peer","version":"1"}` || got.Instructions != "be kind" {
					t.Errorf("Probe = %+v, %v", got, err)
				} else {
					modern = got.Era == mcp.EraModern
				}
				res, err := call("plain", &recorder{})
				if err != nil || string(res.Raw(mcp.FieldContent)) != `[{"type":"text","text":"1.0e0"}]` {
					t.Errorf("result %v", err)
				}
				_, err = call("fail", &recorder{})
				wantError(t, err, -1050)

				caller := &recorder{}
				if _, err := call("progress", caller); err != nil {
					t.Error(err)
				}
				wantStrings(t, "notifications", caller.notifications(), []string{
					`progress {"progressToken":"tok","progress":0}`, `progress {"progressToken":"tok","progress":1}`,
					`progress {"progressToken":"tok","progress":2}`, `message {"level":"warning","data":"done"}`,
				})
				if !modern {
					res, err = call("ask", &recorder{answer: respondWith(`{"role":"assistant","model":"m","content":{"k":1.0}}`)})
					wantResult(t, res, err, `{"content":[],"answer":{"k":1.0}}`)
				}

				waiting := launch(t, c, in(scope, tool(t, "wait")), &recorder{})
				synctest.Wait()
				began := time.Now()
				waiting.cancel()
				<-waiting.done
				<-p.cancelled
				if took := time.Since(began); took > time.Second {
					t.Errorf("the cancellation arrived after %v", took)
				}

				ear := &recorder{}
				listening := launch(t, c, in(scope, request(t, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)), ear)
				synctest.Wait()
				p.change()
				synctest.Wait()
				got := ear.notifications()
				if len(got) < 2 || got[len(got)-1] != "tools/list_changed" && got[len(got)-1] != `tools/list_changed {"_meta":{}}` {
					t.Errorf("changes %q", got)
				}
				listening.cancel()
				<-listening.done
			})
		})
	}
}
