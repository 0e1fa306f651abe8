// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// hearer is a Caller that notes what it is told, and takes its time where gate is not
// nil.
type hearer struct {
	heard []string
	gate  chan error // what the next Notify waits for and returns
}

func (h *hearer) Notify(ctx context.Context, n *mcp.Notification) error {
	if h.gate == nil {
		h.heard = append(h.heard, n.Method)
		return nil
	}
	select {
	case err := <-h.gate:
		if err == nil {
			h.heard = append(h.heard, n.Method)
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *hearer) Ask(context.Context, *mcp.Request) (*mcp.Result, error) {
	return nil, errors.ErrUnsupported
}

// guarded is a vigil for the tools of a gateway in which nothing moves by itself.
type guarded struct {
	t      *testing.T
	g      *Gateway
	caller *hearer
	cancel context.CancelFunc
	stop   func()
}

const (
	ackNotice  = "notifications/subscriptions/acknowledged"
	toolNotice = "notifications/tools/list_changed"
)

// keepVigil runs f in a bubble with a vigil that has begun.
func keepVigil(t *testing.T, f func(*guarded)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := &guarded{t: t, g: &Gateway{}, caller: &hearer{}}
		v.g.view.Store(&view{catalog: catalog.Build(nil, catalog.Options{})})
		req, err := mcp.NewRequest("subscriptions/listen", []byte(`{"notifications":{"toolsListChanged":true}}`))
		if err != nil {
			t.Fatal(err)
		}
		v.g.view.Load().cfg = (&Config{}).Effective()
		ctx, cancel := context.WithCancel(t.Context())
		v.cancel = cancel
		if v.stop, err = v.g.Watch(ctx, req, v.caller); err != nil {
			t.Fatal(err)
		}
		v.wants(ackNotice)
		f(v)
		cancel()
		v.stop()
		if n := len(v.g.changed.subscribers); n != 0 {
			t.Errorf("%d ears after the end", n)
		}
		v.change() // which nobody hears: the test would fail for what is left running
	})
}

// change has the tools be others, and says so.
func (v *guarded) change() {
	old := v.g.view.Load()
	next := *old
	next.announced[catalog.Tools]++
	v.g.view.Store(&next)
	v.g.changed.wakeAll()
}

// wants checks what was told so far, once nothing moves.
func (v *guarded) wants(want ...string) {
	v.t.Helper()
	synctest.Wait()
	if !slices.Equal(v.caller.heard, want) {
		v.t.Errorf("heard %q, want %q", v.caller.heard, want)
	}
}

func TestVigilTellsOfEachChange(t *testing.T) {
	keepVigil(t, func(v *guarded) {
		v.g.changed.wakeAll() // of nothing new
		v.wants(ackNotice)
		v.change()
		v.wants(ackNotice, toolNotice)
		v.change()
		v.wants(ackNotice, toolNotice, toolNotice)
	})
}

// Many changes while a client is slow are one notice after that, and there is one
// goroutine for them (I33).
func TestVigilOfASlowClient(t *testing.T) {
	keepVigil(t, func(v *guarded) {
		v.caller.gate = make(chan error)
		v.change()
		synctest.Wait()
		for range 5 {
			v.change()
		}
		v.wants(ackNotice)
		v.caller.gate <- nil
		v.wants(ackNotice, toolNotice)
		v.caller.gate <- nil
		v.wants(ackNotice, toolNotice, toolNotice)
		select {
		case v.caller.gate <- nil:
			t.Error("a third notice of two")
		default:
		}
	})
}

// What could not be told stays due for the next change.
func TestVigilAfterAFailure(t *testing.T) {
	keepVigil(t, func(v *guarded) {
		v.caller.gate = make(chan error)
		v.change()
		v.caller.gate <- mcp.ErrRequestEnded
		v.wants(ackNotice)
		v.g.changed.wakeAll() // of nothing, but that is due still
		v.caller.gate <- nil
		v.wants(ackNotice, toolNotice)
	})
}

// stop returns when nobody tells any more.
func TestStopOfAVigilThatTells(t *testing.T) {
	keepVigil(t, func(v *guarded) {
		v.caller.gate = make(chan error)
		v.change()
		synctest.Wait()
		stopped := make(chan struct{})
		go func() { v.stop(); close(stopped) }() // ends when the notice has
		synctest.Wait()
		select {
		case <-stopped:
			t.Error("stopped while somebody tells")
		default:
		}
		v.cancel()
		<-stopped
		v.wants(ackNotice)
	})
}

// A listen that does not begin leaves nothing.
func TestVigilThatDoesNotBegin(t *testing.T) {
	g := &Gateway{}
	g.view.Store(&view{catalog: catalog.Build(nil, catalog.Options{}), cfg: (&Config{}).Effective()})
	for params, want := range map[string]error{
		`{"notifications":{"toolsListChanged":true}}`:                 context.Canceled,
		`{"notifications":{"resourceSubscriptions":["x:y"]}}`:         errors.ErrUnsupported,
		`{"notifications":{"toolsListChanged":true,"taskIds":["x"]}}`: errors.ErrUnsupported,
	} {
		req, err := mcp.NewRequest("subscriptions/listen", []byte(params))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		stop, err := g.Watch(ctx, req, &hearer{gate: make(chan error)})
		if stop != nil || !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", params, err, want)
		}
		if n := len(g.changed.subscribers); n != 0 {
			t.Errorf("%s: %d ears are left", params, n)
		}
	}
}
