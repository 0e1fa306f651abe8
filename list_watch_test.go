// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// recordingCaller records its notifications. If gate is not nil, each Notify waits for
// it.
type recordingCaller struct {
	received []string
	gate     chan error // the next Notify waits for it and returns its value
}

func (h *recordingCaller) Notify(ctx context.Context, n *mcp.Notification) error {
	if h.gate == nil {
		h.received = append(h.received, n.Method)
		return nil
	}
	select {
	case err := <-h.gate:
		if err == nil {
			h.received = append(h.received, n.Method)
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *recordingCaller) Start(context.Context, *mcp.Request) (func() (*mcp.Result, error), error) {
	return nil, errors.ErrUnsupported
}

func (*recordingCaller) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

// watchTest is a listWatch for the tools of a gateway that does nothing by itself.
type watchTest struct {
	t      *testing.T
	g      *Gateway
	caller *recordingCaller
	cancel context.CancelFunc
	stop   func()
}

const (
	ackNotice  = "notifications/subscriptions/acknowledged"
	toolNotice = "notifications/tools/list_changed"
)

// withListWatch runs f in a bubble with a started listWatch.
func withListWatch(t *testing.T, f func(*watchTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := &watchTest{t: t, g: &Gateway{}, caller: &recordingCaller{}}
		v.g.view.Store(&view{catalog: catalog.Build(nil, catalog.Options{})})
		req, err := mcp.NewRequest("subscriptions/listen", []byte(`{"notifications":{"toolsListChanged":true}}`))
		if err != nil {
			t.Fatal(err)
		}
		v.g.view.Load().cfg = (&config.Config{}).Effective()
		ctx, cancel := context.WithCancel(t.Context())
		v.cancel = cancel
		if v.stop, err = v.g.Watch(ctx, req, v.caller); err != nil {
			t.Fatal(err)
		}
		v.wantReceived(ackNotice)
		f(v)
		cancel()
		v.stop()
		if n := len(v.g.changed.subscribers); n != 0 {
			t.Errorf("%d ears after the end", n)
		}
		v.change() // no longer sent: otherwise the test would fail for a running goroutine
	})
}

// change replaces the tools and wakes the listeners.
func (v *watchTest) change() {
	old := v.g.view.Load()
	next := *old
	next.announced[catalog.Tools]++
	v.g.view.Store(&next)
	v.g.changed.wakeAll()
}

// wantReceived checks the notifications so far, after all goroutines are idle.
func (v *watchTest) wantReceived(want ...string) {
	v.t.Helper()
	synctest.Wait()
	if !slices.Equal(v.caller.received, want) {
		v.t.Errorf("heard %q, want %q", v.caller.received, want)
	}
}

func TestListWatchNotifiesOfEachChange(t *testing.T) {
	withListWatch(t, func(v *watchTest) {
		v.g.changed.wakeAll() // without a change
		v.wantReceived(ackNotice)
		v.change()
		v.wantReceived(ackNotice, toolNotice)
		v.change()
		v.wantReceived(ackNotice, toolNotice, toolNotice)
	})
}

// Many changes while a client is slow become one notification afterwards, and need one
// goroutine (I33).
func TestListWatchOfASlowClient(t *testing.T) {
	withListWatch(t, func(v *watchTest) {
		v.caller.gate = make(chan error)
		v.change()
		synctest.Wait()
		for range 5 {
			v.change()
		}
		v.wantReceived(ackNotice)
		v.caller.gate <- nil
		v.wantReceived(ackNotice, toolNotice)
		v.caller.gate <- nil
		v.wantReceived(ackNotice, toolNotice, toolNotice)
		select {
		case v.caller.gate <- nil:
			t.Error("a third notice of two")
		default:
		}
	})
}

// A notification that could not be sent stays due until the next change.
func TestListWatchAfterAFailure(t *testing.T) {
	withListWatch(t, func(v *watchTest) {
		v.caller.gate = make(chan error)
		v.change()
		v.caller.gate <- mcp.ErrRequestEnded
		v.wantReceived(ackNotice)
		v.g.changed.wakeAll() // without a change, but one is still due
		v.caller.gate <- nil
		v.wantReceived(ackNotice, toolNotice)
	})
}

// stop returns after the last goroutine has ended.
func TestStopOfAListWatchThatSends(t *testing.T) {
	withListWatch(t, func(v *watchTest) {
		v.caller.gate = make(chan error)
		v.change()
		synctest.Wait()
		stopped := make(chan struct{})
		go func() { v.stop(); close(stopped) }() // ends when the notification has
		synctest.Wait()
		select {
		case <-stopped:
			t.Error("stopped while a notification is being sent")
		default:
		}
		v.cancel()
		<-stopped
		v.wantReceived(ackNotice)
	})
}

// A listen that fails to start leaves nothing behind.
func TestListWatchThatFailsToStart(t *testing.T) {
	g := &Gateway{}
	g.view.Store(&view{catalog: catalog.Build(nil, catalog.Options{}), cfg: (&config.Config{}).Effective()})
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
		stop, err := g.Watch(ctx, req, &recordingCaller{gate: make(chan error)})
		if stop != nil || !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", params, err, want)
		}
		if n := len(g.changed.subscribers); n != 0 {
			t.Errorf("%s: %d ears are left", params, n)
		}
	}
}
