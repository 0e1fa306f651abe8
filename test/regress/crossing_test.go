// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package regress_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// Isolation of the two legs: the data of one client, one session or one instance stays
// there.

// pipeGateway is a gateway in front of one server of lines, in this process.
func pipeGateway(t *testing.T, s *faultyserver.Lines, cfg client.Config) *gatewaytest.Gateway {
	t.Helper()
	var wg sync.WaitGroup
	c := client.NewPipe(func(context.Context) (io.ReadWriteCloser, error) {
		a, b := memnet.Pipe(1 << 20)
		wg.Go(func() { s.Serve(b) }) // ends when the client closes its end; waited for below
		return a, nil
	}, cfg)
	t.Cleanup(func() { // after the gateway has ended
		if err := c.Close(); err != nil {
			t.Errorf("closing the client: %v", err)
		}
		wg.Wait()
	})
	return gatewaytest.Open(t, config.Config{}, signalbox.Options{InProcess: []signalbox.InProcess{{Name: "a", Handler: c}}})
}

// M014, I4: two requests without a session, both with the id 1, share one process,
// which answers in reverse order. Each receives its own answer.
func TestM014SameIDOverOneProcess(t *testing.T) {
	for _, modern := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			lines := make(chan *faultyserver.Line, 2)
			s := &faultyserver.Lines{Modern: modern, On: map[string]func(*faultyserver.Line){
				"tools/list": func(x *faultyserver.Line) { x.Result(gatewaytest.ToolList("x")) },
				"tools/call": func(x *faultyserver.Line) { lines <- x },
			}}
			h := pipeGateway(t, s, client.Config{Name: "a", Share: !modern})
			var calls [2]<-chan gatewaytest.Response
			var at [2]*faultyserver.Line
			for i := range 2 {
				body, hs := gatewaytest.ModernRequest("1", "tools/call", "a__x", fmt.Sprintf(`"arguments":{"who":%d}`, i))
				calls[i] = h.Async(body, hs)
				at[i] = <-lines
			}
			if at[0].Msg.ID == at[1].Msg.ID {
				t.Errorf("both went out as %s", at[0].Msg.ID)
			}
			for _, i := range []int{1, 0} {
				at[i].Result(`{"content":[],"to":` + string(at[i].Msg.Params.Raw(mcp.FieldArguments)) + `}`)
				got := (<-calls[i]).Body
				if !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":1,"result":`) || !strings.Contains(got, fmt.Sprintf(`"to":{"who":%d}`, i)) {
					t.Errorf("modern %v: %d got %s", modern, i, got)
				}
			}
		})
	}
}

// keeper is a legacy server that keeps, for each of its sessions, the arguments of its
// calls.
type keeper struct {
	*faultyserver.HTTP

	mu   sync.Mutex
	kept map[string][]string
}

func newKeeper() *keeper {
	k := &keeper{HTTP: gatewaytest.ServerWithTools(false, "keep"), kept: map[string][]string{}}
	k.On["tools/call"] = func(x *faultyserver.Exchange) {
		id := x.R.Header.Get("Mcp-Session-Id")
		if !k.knows(id) {
			x.Status(404, "", "")
			return
		}
		x.Result(`{"content":[],"kept":[` + strings.Join(k.keep(id, string(x.Msg.Params.Raw(mcp.FieldArguments))), ",") + `]}`)
	}
	k.On["initialize"] = func(x *faultyserver.Exchange) {
		x.Initialize()
		k.mu.Lock()
		defer k.mu.Unlock()
		_, id, _ := strings.Cut(x.W.Header().Get("Mcp-Session-Id"), "faulty") // as it was assigned, whatever prefix was added since
		k.kept["faulty"+id] = []string{}
	}
	return k
}

func (k *keeper) knows(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kept[id] != nil
}

func (k *keeper) keep(id, what string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.kept[id] = append(k.kept[id], what)
	return slices.Clone(k.kept[id])
}

// forget drops all sessions.
func (k *keeper) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.kept)
}

// M108, I22, I38: a server binds data to its session. Each of two principals has a
// session of its own there, in both eras, also with the same arguments at the same
// time.
func TestM108NoSessionForTwoPrincipals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper()
		h := gatewaytest.Backends{"a": k}.Open(t, func(cfg *config.Config) { gatewaytest.WithPrincipals(cfg, "ann", "bob") })
		ways := map[string]func(who gatewaytest.Header, what string) gatewaytest.Response{
			"modern": func(who gatewaytest.Header, what string) gatewaytest.Response {
				return h.PostModern("1", "tools/call", "a__keep", `"arguments":"`+what+`"`, who)
			},
		}
		sessions := map[string]gatewaytest.Header{"ann": h.Legacy(gatewaytest.WithToken("ann")), "bob": h.Legacy(gatewaytest.WithToken("bob"))}
		for range 2 {
			for _, who := range []string{"ann", "bob"} {
				got := ways["modern"](gatewaytest.WithToken(who), "modern "+who)
				foreign := map[string]string{"ann": "bob", "bob": "ann"}[who]
				if got.Status != 200 || strings.Contains(got.Body, foreign) || !strings.Contains(got.Body, "modern "+who) {
					t.Errorf("modern: %s got %d %s", who, got.Status, got.Body)
				}
				got = h.Post(gatewaytest.LegacyRequest("1", "tools/call", `{"name":"a__keep","arguments":"legacy `+who+`"}`), sessions[who])
				if got.Status != 200 || strings.Contains(got.Body, foreign) || strings.Contains(got.Body, "modern") {
					t.Errorf("legacy: %s got %d %s", who, got.Status, got.Body)
				}
			}
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		for id, kept := range k.kept {
			if text := strings.Join(kept, " "); strings.Contains(text, "ann") && strings.Contains(text, "bob") {
				t.Errorf("session %s has %s", id, text)
			}
		}
	})
}

// M104, M107, I17, I19: a session is known only where it was opened. Another replica,
// and the same one after a restart, answers 404 and does nothing; no id of an old
// session at the backend is used again, neither there nor after the backend has
// forgotten it.
func TestM104M107SessionOfAnotherReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper()
		one, two := gatewaytest.Backends{"a": k}.Open(t, nil), gatewaytest.Backends{"a": k}.Open(t, nil)
		sess := one.Legacy()
		call := gatewaytest.LegacyRequest("1", "tools/call", `{"name":"a__keep","arguments":1}`)
		gatewaytest.WantEqual(t, "replica one", one.Post(call, sess).Body, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"kept":[1]}}`)
		before := k.Count("tools/call")
		if got := two.Post(call, sess); got.Status != 404 || k.Count("tools/call") != before {
			t.Errorf("replica two: %d %s, %d calls; want 404 and none", got.Status, got.Body, k.Count("tools/call")-before)
		}
		gatewaytest.WantEqual(t, "replica one afterwards", one.Post(call, sess).Body, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"kept":[1,1]}}`)

		old := sessionsSeen(k.HTTP, 0)
		k.forget()
		mark := len(k.Seen())
		gatewaytest.WantEqual(t, "the backend has forgotten", one.Post(call, sess).Body, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"kept":[1]}}`)
		refused := k.Count("tools/call")
		gatewaytest.WantEqual(t, "and once more", one.Post(call, sess).Body, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"kept":[1,1]}}`)
		if n := k.Count("tools/call") - refused; n != 1 {
			t.Errorf("%d attempts for the call after the recovery, want 1: the new session is remembered", n)
		}
		for _, r := range k.Seen()[mark:] {
			if r.Method == "initialize" && r.Header.Get("Mcp-Session-Id") != "" {
				t.Errorf("initialize with the session %q", r.Header.Get("Mcp-Session-Id"))
			}
		}

		if err := one.G.Close(); err != nil { // the pod is killed
			t.Fatal(err)
		}
		mark = len(k.Seen())
		fresh := gatewaytest.Backends{"a": k}.Open(t, nil)
		if got := fresh.Post(call, sess); got.Status != 404 {
			t.Errorf("after the restart: %d %s; want 404", got.Status, got.Body)
		}
		gatewaytest.WantEqual(t, "a new session", fresh.Post(call, fresh.Legacy()).Body, `{"jsonrpc":"2.0","id":1,"result":{"content":[],"kept":[1]}}`)
		for id := range sessionsSeen(k.HTTP, mark) {
			if old[id] {
				t.Errorf("session %s of before the restart is used again", id)
			}
		}
	})
}

// sessionsSeen returns the session ids in the requests after the first n.
func sessionsSeen(s *faultyserver.HTTP, n int) map[string]bool {
	ids := map[string]bool{}
	for _, r := range s.Seen()[n:] {
		if id := r.Header.Get("Mcp-Session-Id"); id != "" && r.Verb != http.MethodDelete {
			ids[id] = true
		}
	}
	return ids
}

// M120, I23, I25: a client cancels a call in the way of its era, and the backend is
// notified in the way of its own era: by a notification, or by the end of the response.
func TestM120CancelInBothEras(t *testing.T) {
	for _, inbound := range []string{"legacy", "modern"} {
		for _, modern := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s client/modern backend %v", inbound, modern), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { cancelThrough(t, inbound == "modern", modern) })
			})
		}
	}
}

func cancelThrough(t *testing.T, modernClient, modernBackend bool) {
	t.Helper()
	arrived, left := make(chan string, 1), make(chan struct{})
	s := gatewaytest.ServerWithTools(modernBackend, "wait")
	s.On["tools/call"] = func(x *faultyserver.Exchange) {
		arrived <- x.Msg.ID.String()
		x.Hold()
		close(left)
	}
	h := gatewaytest.Backends{"a": s}.Open(t, nil)
	ctx, leave := context.WithCancel(t.Context())
	body, hs := gatewaytest.ModernRequest("1", "tools/call", "a__wait", "")
	if !modernClient {
		body, hs = gatewaytest.LegacyRequest("1", "tools/call", `{"name":"a__wait"}`), h.Legacy()
	}
	over := make(chan struct{})
	r := h.Request(ctx, http.MethodPost, body, hs)
	go func() { // ends with the call, or with ctx
		defer close(over)
		if res, err := h.HTTP.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	}()
	id := <-arrived
	began := time.Now()
	if modernClient {
		leave()
	} else if got := h.Post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, hs); got.Status != 202 {
		t.Errorf("the notice: %d %s", got.Status, got.Body)
	}
	<-left
	<-over
	leave()
	synctest.Wait()
	if took := time.Since(began); took > time.Second {
		t.Errorf("the backend's connection was let go after %v", took)
	}
	notices := 0
	for _, seen := range s.Seen() {
		if seen.Method == "notifications/cancelled" {
			notices++
			if !strings.Contains(seen.Body, `"requestId":`+id) {
				t.Errorf("the notice is %s; want it to name %s", seen.Body, id)
			}
		}
	}
	if want := map[bool]int{false: 1, true: 0}[modernBackend]; notices != want {
		t.Errorf("%d notices, want %d", notices, want)
	}
}

type podKey struct{}

// M191, I38: two pods share one address. All our requests of a session name it, on any
// connection, so that a load balancer can route it to the pod that opened it: every
// message reaches that pod. If the balancer does not, a request that reaches the other
// pod is not executed there, and the error reports it.
func TestM191TwoInstancesBehindOneAddress(t *testing.T) {
	byID := func(connection int, id string) int {
		if pod, err := strconv.Atoi(strings.TrimPrefix(id[:min(len(id), 4)], "pod")); err == nil {
			return pod
		}
		return connection % 2
	}
	byConnection := func(connection int, _ string) int { return connection % 2 }
	for name, balance := range map[string]func(connection int, id string) int{"kept": byID, "not kept": byConnection} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { twoPods(t, balance, name == "kept") })
		})
	}
}

func twoPods(t *testing.T, balance func(connection int, id string) int, keeps bool) {
	t.Helper()
	pods := [2]*keeper{newKeeper(), newKeeper()}
	var connections, misled atomic.Int32
	ln := memnet.Listen()
	srv := &http.Server{
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, podKey{}, int(connections.Add(1)))
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			connection, _ := r.Context().Value(podKey{}).(int)
			id := r.Header.Get("Mcp-Session-Id")
			pod := balance(connection, id)
			if own := fmt.Sprint("pod", pod); id != "" && !strings.HasPrefix(id, own) {
				misled.Add(1)
				w.WriteHeader(http.StatusNotFound)
				return
			} else if id != "" {
				r.Header.Set("Mcp-Session-Id", strings.TrimPrefix(id, own))
			}
			pods[pod].ServeHTTP(&podWriter{w, fmt.Sprint("pod", pod)}, r)
		}),
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }() // ends with the Close below, which waits for it
	way := ln.HTTP1()
	t.Cleanup(func() {
		way.CloseIdleConnections()
		srv.Close()
		<-served
	})
	for _, pod := range pods { // the stream occupies a connection, so that there are several
		pod.On["GET"] = func(x *faultyserver.Exchange) { x.Begin(); x.Hold() }
	}
	const calls = 10
	h := gatewaytest.Open(t, gatewaytest.ConfigOf(1), signalbox.Options{Transport: way})
	sess := h.Legacy()
	results := 0
	for i := range calls {
		got := h.Post(gatewaytest.LegacyRequest("1", "tools/call", fmt.Sprintf(`{"name":"b0__keep","arguments":%d}`, i)), sess)
		switch {
		case strings.HasPrefix(got.Body, `{"jsonrpc":"2.0","id":1,"result":`):
			results++
		case !strings.Contains(got.Body, `"outcome":"not_dispatched"`):
			t.Errorf("call %d: %s; want a result, or that it was not sent", i, got.Body)
		}
	}
	if executed := len(pods[0].all()) + len(pods[1].all()); executed != results || connections.Load() < 2 {
		t.Errorf("%d executions for %d results over %d connections; want as many, over several", executed, results, connections.Load())
	}
	if keeps && (results != calls || misled.Load() != 0) {
		t.Errorf("%d of %d calls succeeded, %d messages reached the other pod; want all, and none", results, calls, misled.Load())
	}
	if !keeps && misled.Load() == 0 {
		t.Error("no message has reached the other pod")
	}
}

// podWriter adds the name of its pod to the ids of sessions.
type podWriter struct {
	http.ResponseWriter

	pod string
}

func (w *podWriter) WriteHeader(status int) {
	if id := w.Header().Get("Mcp-Session-Id"); id != "" && !strings.HasPrefix(id, w.pod) {
		w.Header().Set("Mcp-Session-Id", w.pod+id)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *podWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// all returns the calls executed in all sessions.
func (k *keeper) all() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []string
	for _, kept := range k.kept {
		for _, what := range kept {
			all = append(all, "<"+what+">")
		}
	}
	return all
}

// M192, I38: the data of one leg stays on it: credentials, cookies and ids of sessions,
// in both directions. A backend receives only what is configured for it.
func TestM192LegLocalDataDoesNotCross(t *testing.T) {
	const secret = "s3cr3t"
	leaks := []string{"Cookie", "Proxy-Authorization", "X-Api-Key", "X-Forwarded-For", "Forwarded", "X-Forwarded-Authorization"}
	for _, modern := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := gatewaytest.ServerWithTools(modern, "x")
			s.On["tools/call"] = func(x *faultyserver.Exchange) {
				for _, name := range []string{"Set-Cookie", "Www-Authenticate", "X-Internal", "Proxy-Authenticate", "Server"} {
					x.W.Header().Set(name, secret)
				}
				x.W.Header().Set("Mcp-Session-Id", secret)
				x.Polite()
			}
			h := gatewaytest.Backends{"a": s}.Open(t, func(cfg *config.Config) {
				gatewaytest.WithPrincipals(cfg, "ann")
				cfg.Servers[0].Headers = map[string]config.Secret{"Authorization": config.NewSecret("Bearer for-the-backend")}
			})
			private := gatewaytest.Header{}
			for _, name := range leaks {
				private[name] = secret
			}
			sess := h.Legacy(gatewaytest.WithToken("ann"), private)
			for client, got := range map[string]gatewaytest.Response{
				"legacy": h.Post(gatewaytest.LegacyRequest("1", "tools/call", `{"name":"a__x"}`), sess),
				"modern": h.PostModern("1", "tools/call", "a__x", "", gatewaytest.WithToken("ann"), private),
			} {
				if got.Status != 200 || strings.Contains(got.Body, secret) {
					t.Errorf("%s client: %d %s", client, got.Status, got.Body)
				}
				for name, values := range got.Header {
					if strings.Contains(strings.Join(values, " "), secret) {
						t.Errorf("%s client: the backend's %s came through: %q", client, name, values)
					}
				}
			}
			if n := s.Count("tools/call"); n != 2 {
				t.Fatalf("%d calls, want 2", n)
			}
			for _, r := range s.Seen() {
				if got := r.Header.Get("Authorization"); got != "Bearer for-the-backend" {
					t.Errorf("%s %s: authorized by %q", r.Verb, r.Method, got)
				}
				for name, values := range r.Header {
					text := strings.Join(values, " ")
					if strings.Contains(text, secret) || strings.Contains(text, gatewaytest.TokenOf("ann")) || strings.Contains(text, sess["Mcp-Session-Id"]) {
						t.Errorf("%s %s: the client's own %s came through: %q", r.Verb, r.Method, name, values)
					}
				}
				if strings.Contains(r.Body, gatewaytest.TokenOf("ann")) || strings.Contains(r.Body, sess["Mcp-Session-Id"]) {
					t.Errorf("%s %s: %s", r.Verb, r.Method, r.Body)
				}
			}
		})
	}
}
