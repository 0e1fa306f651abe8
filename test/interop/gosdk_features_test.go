// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// progressAttempts is how often progress is tested. Steps may be missing by chance: of those that
// a client has not read, the newest remains, and they are lost while a request is parked because
// the server has asked something.
const progressAttempts = 5

// stepsPatience is how long the steps of a call that has ended may take.
const stepsPatience = 2 * time.Second

// tryProgress expects every step, in order, with the token of the call.
func (s *goSession) tryProgress(ctx context.Context, p *callProbe) error {
	var err error
	for attempt := range progressAttempts {
		if err = s.wantSteps(ctx, p, fmt.Sprintf("progress of %s, %d", p.Name, attempt)); !errors.Is(err, errMissed) {
			return err
		}
	}
	return err
}

var errMissed = errors.New("steps are missing")

func (s *goSession) wantSteps(ctx context.Context, p *callProbe, token string) error {
	got, err := s.call(ctx, *p, token)
	if err != nil {
		return err
	}
	patience, cancel := context.WithTimeout(ctx, stepsPatience)
	defer cancel()
	for want := range p.Steps {
		n, err := s.inbox.progress.take(patience, func(n *mcp.ProgressNotificationParams) bool { return n.ProgressToken == token })
		switch {
		case err != nil:
			return fmt.Errorf("step %d: %w: %w", want+1, err, errMissed)
		case n.Progress > float64(want+1) && n.Progress <= float64(p.Steps):
			return fmt.Errorf("got progress %v, want %d: %w", n.Progress, want+1, errMissed)
		case n.Progress != float64(want+1):
			return fmt.Errorf("got progress %v, want %d", n.Progress, want+1)
		}
	}
	return includes(got, p.Want)
}

// tryCancel succeeds if the server reports that the cancellation arrived.
func (s *goSession) tryCancel(ctx context.Context, p *cancelProbe) error {
	blocked, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	// Waited for below; ends with the context that is cancelled here.
	go func() {
		_, err := s.call(blocked, p.Block, nil)
		done <- err
	}()
	if err := s.wantCall(ctx, &p.Started); err != nil {
		return err
	}
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		return fmt.Errorf("cancelled call returned %w", err)
	}
	return s.wantCall(ctx, &p.Cancelled)
}

func (s *goSession) tryLog(ctx context.Context, p *callProbe) error {
	if err := s.setLevel(ctx, "debug"); err != nil {
		return err
	}
	if _, err := s.call(ctx, *p, nil); err != nil {
		return err
	}
	_, err := s.inbox.logs.take(ctx, func(data string) bool { return strings.Contains(data, p.Want) })
	if err != nil || p.Stop == nil {
		return err
	}
	_, err = s.call(ctx, *p.Stop, nil)
	return err
}

// setLevel requests log messages: in the modern era, with each call.
func (s *goSession) setLevel(ctx context.Context, level mcp.LoggingLevel) error {
	if s.job.Era == eraModern {
		s.meta = mcp.Meta{mcp.MetaKeyLogLevel: level}
		return nil
	}
	return s.cs.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: level})
}

func (s *goSession) tryComplete(ctx context.Context, all []completeProbe) error {
	for _, p := range all {
		res, err := s.cs.Complete(ctx, &mcp.CompleteParams{
			Ref:      &mcp.CompleteReference{Type: p.Ref["type"], Name: p.Ref["name"], URI: p.Ref["uri"]},
			Argument: mcp.CompleteParamsArgument{Name: p.Argument["name"], Value: p.Argument["value"]},
		})
		if err != nil {
			return err
		}
		if err := includesAll(res.Completion.Values, []string{p.Value}); err != nil {
			return err
		}
	}
	return nil
}

func (s *goSession) tryRead(ctx context.Context, all []readProbe) error {
	for _, p := range all {
		res, err := s.cs.ReadResource(ctx, &mcp.ReadResourceParams{URI: p.URI})
		if err != nil {
			return err
		}
		if len(res.Contents) == 0 {
			return fmt.Errorf("%s is empty", p.URI)
		}
		if err := includes(res.Contents[0].Text, p.Text); err != nil {
			return err
		}
	}
	return nil
}

func (s *goSession) tryGet(ctx context.Context, p *callProbe) error {
	args := make(map[string]string)
	for k, v := range p.Arguments {
		args[k] = fmt.Sprint(v)
	}
	res, err := s.cs.GetPrompt(ctx, &mcp.GetPromptParams{Name: p.Name, Arguments: args})
	if err != nil {
		return err
	}
	if len(res.Messages) == 0 {
		return errors.New("no messages")
	}
	text, ok := res.Messages[0].Content.(*mcp.TextContent)
	if !ok {
		return fmt.Errorf("content is a %T", res.Messages[0].Content)
	}
	return includes(text.Text, p.Want)
}

// tryChanges expects a notice for each change, and the change in the list that is fetched
// after a notice. Other clients of the same server cause notices, too.
func (s *goSession) tryChanges(ctx context.Context, p *changeProbe) error {
	if err := s.wantChange(ctx, p, &p.Add, true); err != nil {
		return fmt.Errorf("add: %w", err)
	}
	if p.Remove == nil {
		return nil
	}
	if err := s.wantChange(ctx, p, p.Remove, false); err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	return nil
}

func (s *goSession) wantChange(ctx context.Context, p *changeProbe, step *callProbe, present bool) error {
	notices := s.inbox.changed[p.Kind]
	notices.clear()
	if err := s.wantCall(ctx, step); err != nil {
		return err
	}
	for {
		if _, err := notices.take(ctx, func(struct{}) bool { return true }); err != nil {
			return err
		}
		list, err := s.listed(ctx, p.Kind)
		if err != nil {
			return err
		}
		if slices.Contains(list, p.Item) == present {
			break
		}
	}
	if !present || p.Use == nil {
		return nil
	}
	return s.wantCall(ctx, p.Use)
}

// tryUpdates expects an update of the one resource that it has subscribed to.
func (s *goSession) tryUpdates(ctx context.Context, p *updateProbe) error {
	if err := s.cs.Subscribe(ctx, &mcp.SubscribeParams{URI: p.URI}); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	if err := s.wantAgreed(ctx, p.URI); err != nil {
		return fmt.Errorf("acknowledged: %w", err)
	}
	if err := s.wantCall(ctx, &p.Touch); err != nil {
		return err
	}
	if _, err := s.inbox.updated.take(ctx, func(uri string) bool { return uri == p.URI }); err != nil {
		return err
	}
	if p.Touch.Stop != nil {
		if err := s.wantCall(ctx, p.Touch.Stop); err != nil {
			return err
		}
	}
	return s.cs.Unsubscribe(ctx, &mcp.UnsubscribeParams{URI: p.URI})
}

// wantAgreed waits until the server has acknowledged the subscription of a resource. In the
// modern era the SDK returns after sending its listen, and a call right after that may be
// served before it.
func (s *goSession) wantAgreed(ctx context.Context, uri string) error {
	if s.job.Era != eraModern {
		return nil
	}
	_, err := s.inbox.agreed.take(ctx, func(got string) bool { return got == uri })
	return err
}

// inbox keeps unsolicited messages of a server until a feature reads them.
type inbox struct {
	logs     *queue[string]
	updated  *queue[string]
	agreed   *queue[string] // the acknowledged resources
	progress *queue[*mcp.ProgressNotificationParams]
	changed  map[string]*queue[struct{}]
}

func newInbox() *inbox {
	return &inbox{
		logs:     newQueue[string](),
		updated:  newQueue[string](),
		agreed:   newQueue[string](),
		progress: newQueue[*mcp.ProgressNotificationParams](),
		changed:  map[string]*queue[struct{}]{"tools": newQueue[struct{}](), "resources": newQueue[struct{}]()},
	}
}

// noteAgreed records the acknowledgement of a listen, for which the SDK has no handler.
func (in *inbox) noteAgreed(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if p, ok := req.GetParams().(*mcp.SubscriptionsAcknowledgedParams); ok {
			for _, uri := range p.Notifications.ResourceSubscriptions {
				in.agreed.put(uri)
			}
		}
		return next(ctx, method, req)
	}
}

// queue is unbounded, for a test that lives for seconds. Any number of goroutines may put;
// one takes.
type queue[T any] struct {
	added chan struct{}

	mu    sync.Mutex
	items []T
}

func newQueue[T any]() *queue[T] { return &queue[T]{added: make(chan struct{}, 1)} }

func (q *queue[T]) put(item T) {
	q.mu.Lock()
	q.items = append(q.items, item)
	q.mu.Unlock()
	select {
	case q.added <- struct{}{}:
	default: // the taker has not been woken since the last put
	}
}

func (q *queue[T]) clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = nil
}

// take removes and returns the first item that matches, and waits for it.
func (q *queue[T]) take(ctx context.Context, matches func(T) bool) (T, error) {
	for {
		if item, ok := q.find(matches); ok {
			return item, nil
		}
		select {
		case <-q.added:
		case <-ctx.Done():
			var none T
			return none, errors.New("nothing arrived")
		}
	}
}

func (q *queue[T]) find(matches func(T) bool) (item T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.IndexFunc(q.items, matches)
	if i < 0 {
		return item, false
	}
	item = q.items[i]
	q.items = slices.Delete(q.items, i, i+1)
	return item, true
}

// standalone is an HTTP transport that reports when the server has answered the GET of a
// legacy session, because only then can the server send unrelated messages.
type standalone struct {
	opened chan struct{}
	once   sync.Once
}

func newStandalone() *standalone { return &standalone{opened: make(chan struct{})} }

// RoundTrip implements [http.RoundTripper].
func (s *standalone) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(req)
	if req.Method == http.MethodGet && err == nil {
		s.once.Do(func() { close(s.opened) })
	}
	return res, err
}
