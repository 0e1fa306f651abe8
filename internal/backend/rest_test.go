// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// program is a server that is started for each connection. Its only tool can be renamed.
type program struct {
	lines faultyserver.Lines

	mu      sync.Mutex
	tool    string
	started int
	open    int
	running sync.WaitGroup
	lists   []*faultyserver.Line // of each process that has listed
}

func newProgram(modern, announces bool) *program {
	p := &program{tool: "one"}
	p.lines.Modern = modern
	p.lines.Capabilities = fmt.Sprintf(`{"tools":{"listChanged":%t}}`, announces)
	p.lines.On = map[string]func(*faultyserver.Line){"tools/list": func(x *faultyserver.Line) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.lists = append(p.lists, x)
		x.Result(fmt.Sprintf(`{"resultType":"complete","tools":[{"name":%q,"inputSchema":{"type":"object"}}]}`, p.tool))
	}}
	return p
}

func (p *program) start(context.Context) (io.ReadWriteCloser, error) {
	a, b := memnet.Pipe(1 << 20)
	p.count(1, 1)
	p.running.Go(func() { // ends when the client closes its end; the test waits for it
		defer p.count(0, -1)
		p.lines.Serve(b)
	})
	return a, nil
}

func (p *program) count(started, open int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.started += started
	p.open += open
}

func (p *program) rename(tool string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tool = tool
}

// want checks how many processes were started, and how many are open.
func (p *program) want(t *testing.T, when string, started, open int) {
	t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started != started || p.open != open {
		t.Errorf("%s: %d processes were started and %d are open, want %d and %d", when, p.started, p.open, started, open)
	}
}

// resting runs a Backend of the program that may rest after ten minutes.
func (p *program) resting(t *testing.T, cfg backend.Config, ccfg client.Config) *backend.Backend {
	t.Helper()
	ccfg.Name = "notes"
	c := client.NewPipe(p.start, ccfg)
	var b *backend.Backend
	cfg.Name, cfg.Handler = "notes", c
	cfg.Rest = &backend.Rest{
		Idle: 10 * time.Minute, Processes: c, Busy: func() bool { return false },
		Shown: func(*mcp.Peer) backend.Lists { return b.Offer().Lists },
	}
	b = backend.New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { // ends with ctx; waited for by the cleanup
		defer close(done)
		b.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		<-done
		p.running.Wait()
	})
	return b
}

func callOf(t *testing.T, b *backend.Backend, scope *mcp.Scope) {
	t.Helper()
	req, err := mcp.NewRequest("tools/call", []byte(`{"name":"one","arguments":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Client = &mcp.Peer{Info: []byte(`{"name":"test","version":"1"}`)}
	req.Scope = scope
	if _, err := b.Serve(t.Context(), req, silentCaller{}); err != nil {
		t.Error(err)
	}
}

func wantState(t *testing.T, b *backend.Backend, want backend.State, tool string) {
	t.Helper()
	synctest.Wait()
	o := b.Offer()
	if items := o.Lists[catalog.Tools].Items; o.State != want || len(items) != 1 || string(items[0]) != fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, tool) {
		t.Errorf("it is %s and offers %s, want %s with %q", o.State, items, want, tool)
	}
}

// A server that no client uses rests after its idle time: its process ends, and its lists
// stay offered. The next call starts it, and changes of its lists are then known.
func TestIdleServerRests(t *testing.T) {
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprint("modern ", modern), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newProgram(modern, true)
				b := p.resting(t, backend.Config{}, client.Config{})
				wantState(t, b, backend.Live, "one")
				p.want(t, "at the start", 1, 1)
				time.Sleep(9 * time.Minute)
				wantState(t, b, backend.Live, "one")
				p.want(t, "after nine minutes", 1, 1)
				time.Sleep(3 * time.Minute)
				wantState(t, b, backend.Idle, "one")
				p.want(t, "when it is idle", 1, 0)
				time.Sleep(24 * time.Hour)
				wantState(t, b, backend.Idle, "one")
				p.want(t, "after a day", 1, 0)

				p.rename("two")
				who := mcp.NewScope("client", silentCaller{})
				callOf(t, b, who)
				wantState(t, b, backend.Live, "two")
				who.End()
				time.Sleep(12 * time.Minute)
				wantState(t, b, backend.Idle, "two")
				p.want(t, "in the end", map[bool]int{false: 3, true: 2}[modern], 0)
			})
		})
	}
}

// A process of a client is used to compare the lists: no other is started for them. It
// stays as long as the client's session.
func TestListsAreComparedInTheProcessOfAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProgram(false, true)
		b := p.resting(t, backend.Config{}, client.Config{})
		time.Sleep(12 * time.Minute)
		wantState(t, b, backend.Idle, "one")
		who := mcp.NewScope("client", silentCaller{})
		for range 3 {
			callOf(t, b, who)
			wantState(t, b, backend.Live, "one")
			p.want(t, "with one client", 2, 1)
			time.Sleep(12 * time.Hour)
		}
		who.End()
		time.Sleep(2 * time.Minute)
		wantState(t, b, backend.Idle, "one")
		p.want(t, "without a client", 2, 0)
	})
}

// The process that was started for the lists ends when that of a client is there: one
// client of one server has one process.
func TestProcessForListsEndsWithTheFirstClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProgram(false, true)
		b := p.resting(t, backend.Config{}, client.Config{})
		p.want(t, "at the start", 1, 1)
		who := mcp.NewScope("client", silentCaller{})
		defer who.End()
		callOf(t, b, who)
		p.want(t, "with one client", 2, 1)
		wantState(t, b, backend.Live, "one")

		// A change that the client's process announces concerns all. The process that is
		// started for it stays while there may be more.
		p.rename("two")
		for range 3 {
			b.Refresh()
			time.Sleep(5 * time.Second)
			wantState(t, b, backend.Live, "two")
			p.want(t, "after a change", 3, 2)
		}
		time.Sleep(2 * time.Minute)
		callOf(t, b, who)
		p.want(t, "later", 3, 1)
	})
}

// A server that works on a task does not rest.
func TestBusyServerDoesNotRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProgram(true, true)
		busy := new(atomic.Bool)
		busy.Store(true)
		c := client.NewPipe(p.start, client.Config{Name: "notes"})
		b := backend.New(backend.Config{Name: "notes", Handler: c, Rest: &backend.Rest{
			Idle: time.Minute, Processes: c, Busy: busy.Load,
			Shown: func(*mcp.Peer) backend.Lists { return backend.Lists{} },
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { // ends with ctx; waited for below
			defer close(done)
			b.Run(ctx)
		}()
		time.Sleep(time.Hour)
		wantState(t, b, backend.Live, "one")
		p.want(t, "with a task", 1, 1)
		busy.Store(false)
		time.Sleep(2 * time.Minute)
		wantState(t, b, backend.Idle, "one")
		p.want(t, "without a task", 1, 0)
		cancel()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		<-done
		p.running.Wait()
	})
}

// A server that works on a call does not rest, however long that takes.
func TestServerWithALongCallDoesNotRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProgram(true, true)
		p.lines.On["tools/call"] = func(x *faultyserver.Line) {
			time.AfterFunc(40*time.Minute, x.Polite)
		}
		b := p.resting(t, backend.Config{Idle: time.Hour, Max: time.Hour}, client.Config{})
		time.Sleep(9 * time.Minute)
		var calling sync.WaitGroup
		calling.Go(func() { callOf(t, b, nil) }) // ends with its answer
		time.Sleep(39 * time.Minute)
		wantState(t, b, backend.Live, "one")
		calling.Wait()
		time.Sleep(9 * time.Minute)
		p.want(t, "nine minutes after the call", 1, 1)
		time.Sleep(3 * time.Minute)
		wantState(t, b, backend.Idle, "one")
		p.want(t, "twelve minutes after the call", 1, 0)
	})
}

// Lists of an earlier run are offered at once, and no process is started for them unless
// they are old.
func TestKeptListsStartNothing(t *testing.T) {
	for _, c := range []struct {
		age     time.Duration
		started int
	}{{time.Hour, 0}, {25 * time.Hour, 1}} {
		synctest.Test(t, func(t *testing.T) {
			var kept []byte
			first := newProgram(false, true)
			b := first.resting(t, backend.Config{Keep: func(_ backend.Features, o *backend.Offer) {
				raw, err := o.Encode()
				if err != nil {
					t.Error(err)
				}
				kept = raw
			}}, client.Config{})
			wantState(t, b, backend.Live, "one")
			time.Sleep(c.age)

			p := newProgram(false, true)
			b = p.resting(t, backend.Config{Kept: func(backend.Features) *backend.Offer {
				o, err := backend.DecodeKept(kept)
				if err != nil {
					t.Error(err)
				}
				return o
			}}, client.Config{})
			if o := b.Offer(); o.State != backend.Kept || !o.Known() {
				t.Errorf("it is %s at the start", o.State)
			}
			time.Sleep(time.Second)
			p.want(t, fmt.Sprint("with lists of age ", c.age), c.started, 0)
			wantState(t, b, map[int]backend.State{0: backend.Kept, 1: backend.Idle}[c.started], "one")

			who := mcp.NewScope("client", silentCaller{})
			defer who.End()
			callOf(t, b, who)
			wantState(t, b, backend.Live, "one")
			p.want(t, "after a call", c.started+1, 1)
		})
	}
}

// The process of the only client, in which the lists are fetched too, ends if the client
// has only listed. After a call it stays as long as the client.
func TestProcessOfTheOnlyClientRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProgram(false, true)
		who := mcp.NewScope("client", silentCaller{})
		only := backend.Client{Peer: &mcp.Peer{Info: []byte(`{"name":"test","version":"1"}`)}, Scope: who}
		b := p.resting(t, backend.Config{Sole: func(context.Context) (backend.Client, bool) { return only, true }}, client.Config{OneClient: true})
		wantState(t, b, backend.Live, "one")
		p.want(t, "at the start", 1, 1)
		time.Sleep(12 * time.Minute)
		wantState(t, b, backend.Idle, "one")
		p.want(t, "when it is idle", 1, 0)
		p.rename("two")
		callOf(t, b, who)
		wantState(t, b, backend.Live, "two")
		p.want(t, "after a call", 2, 1)
		time.Sleep(12 * time.Hour)
		wantState(t, b, backend.Live, "two")
		p.want(t, "later", 2, 1)
		who.End()
	})
}

// A server that was stopped is started by the next call, also if it never rests by itself.
func TestStoppedServerIsStartedByACall(t *testing.T) {
	for _, idle := range []time.Duration{-1, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			p := newProgram(true, true)
			c := client.NewPipe(p.start, client.Config{Name: "notes"})
			b := backend.New(backend.Config{Name: "notes", Handler: c, Last: &backend.Offer{State: backend.Live}, Stopped: true, Rest: &backend.Rest{
				Idle: idle, Processes: c, Busy: func() bool { return false },
				Shown: func(*mcp.Peer) backend.Lists { return backend.Lists{} },
			}})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { // ends with ctx; waited for below
				defer close(done)
				b.Run(ctx)
			}()
			time.Sleep(24 * time.Hour)
			p.want(t, "when it was stopped", 0, 0)
			callOf(t, b, nil)
			wantState(t, b, backend.Live, "one")
			p.want(t, "after a call", 1, 1)
			time.Sleep(24 * time.Hour)
			p.want(t, "in the end", 1, map[bool]int{true: 1}[idle < 0])
			cancel()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			<-done
			p.running.Wait()
		})
	}
}
