// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// sharedSetServer is a modern server on a pipe with one set of subscriptions for all
// its listens, as some have: the end of any listen empties the set, and the server
// responds to the listen.
type sharedSetServer struct {
	*faultyserver.Lines

	// Set before the first message.
	silent  bool                                            // it does not respond to a cancelled listen
	linger  func() time.Duration                            // from the cancellation to the end of a listen
	think   func() time.Duration                            // from the request to the acknowledgement
	refuse  func(items []string) error                      // called before the acknowledgement; nil accepts all
	agree   func(item string) bool                          // nil agrees to all
	mangled func(x *faultyserver.Line, items []string) bool // replaces all of this

	mu      sync.Mutex
	open    map[string]*serverListen // by the id of the listen
	told    map[string]string        // by item, the listen that is notified about it
	version map[string]int           // by item
	history []string                 // the listens so far, with a minus sign if cancelled
}

type serverListen struct {
	x     *faultyserver.Line
	items []string
	timer *time.Timer
}

func newSharedSetServer() *sharedSetServer {
	s := &sharedSetServer{Lines: &faultyserver.Lines{Modern: true, Capabilities: subscribable, On: map[string]func(*faultyserver.Line){}}}
	s.open, s.told, s.version = map[string]*serverListen{}, map[string]string{}, map[string]int{}
	s.On["subscriptions/listen"] = s.listen
	s.On["notifications/cancelled"] = s.cancelled
	return s
}

// listenFilter is what a listen asks for. Its items are the lists, by the names tools,
// prompts and resources, the URIs of resources, and "task:" with the ids of tasks.
type listenFilter struct {
	Tools     bool     `json:"toolsListChanged,omitzero"`
	Prompts   bool     `json:"promptsListChanged,omitzero"`
	Resources bool     `json:"resourcesListChanged,omitzero"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
	TaskIDs   []string `json:"taskIds,omitempty"`
}

func filterOf(items []string) listenFilter {
	var f listenFilter
	for _, item := range items {
		switch id, isTask := strings.CutPrefix(item, "task:"); {
		case item == "tools":
			f.Tools = true
		case item == "prompts":
			f.Prompts = true
		case item == "resources":
			f.Resources = true
		case isTask:
			f.TaskIDs = append(f.TaskIDs, id)
		default:
			f.URIs = append(f.URIs, item)
		}
	}
	return f
}

func (f listenFilter) items() []string {
	var items []string
	for name, wanted := range map[string]bool{"tools": f.Tools, "prompts": f.Prompts, "resources": f.Resources} {
		if wanted {
			items = append(items, name)
		}
	}
	items = append(items, f.URIs...)
	for _, id := range f.TaskIDs {
		items = append(items, "task:"+id)
	}
	slices.Sort(items)
	return items
}

func itemsIn(params *mcp.Object) []string {
	var p struct {
		F listenFilter `json:"notifications"`
	}
	if err := jsonv2.Unmarshal(params.Bytes(), &p); err != nil {
		return []string{err.Error()}
	}
	return p.F.items()
}

func listenParamsOf(items []string) string {
	raw, err := jsonv2.Marshal(map[string]listenFilter{"notifications": filterOf(items)})
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func (s *sharedSetServer) listen(x *faultyserver.Line) {
	items := itemsIn(&x.Msg.Params)
	s.note(strings.Join(items, " "))
	if s.mangled != nil && s.mangled(x, items) {
		return
	}
	if s.refuse != nil {
		if err := s.refuse(items); err != nil {
			x.Error(mcp.CodeInvalidParams, err.Error())
			return
		}
	}
	if s.agree != nil {
		items = slices.DeleteFunc(items, func(item string) bool { return !s.agree(item) })
	}
	s.add(x, items)
}

func (s *sharedSetServer) note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history = append(s.history, what)
}

// add begins a listen. The acknowledgement follows after think.
func (s *sharedSetServer) add(x *faultyserver.Line, items []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &serverListen{x: x, items: items}
	s.open[x.Msg.ID.String()] = l
	var wait time.Duration
	if s.think != nil {
		wait = s.think()
	}
	if wait == 0 {
		s.beginLocked(l)
		return
	}
	l.timer = time.AfterFunc(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.beginLocked(l)
	})
}

func (s *sharedSetServer) beginLocked(l *serverListen) {
	id := l.x.Msg.ID.String()
	if s.open[id] != l {
		return
	}
	for _, item := range l.items {
		s.told[item] = id
	}
	l.x.Send(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` + strings.TrimPrefix(listenParamsOf(l.items), "{")[:len(listenParamsOf(l.items))-2] + "," + subscription(id) + `}}`)
}

func subscription(id string) string {
	return `"_meta":{"io.modelcontextprotocol/subscriptionId":` + id + `}`
}

func (s *sharedSetServer) cancelled(x *faultyserver.Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := string(x.Msg.Params.Raw(mcp.FieldRequestID))
	l, ok := s.open[id]
	if !ok {
		return
	}
	s.history = append(s.history, "-"+strings.Join(l.items, " "))
	var wait time.Duration
	if s.linger != nil {
		wait = s.linger()
	}
	if wait == 0 {
		s.endLocked(id)
		return
	}
	time.AfterFunc(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.endLocked(id)
	})
}

// endLocked ends a listen, which empties the set.
func (s *sharedSetServer) endLocked(id string) {
	l, ok := s.open[id]
	if !ok {
		return
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	delete(s.open, id)
	clear(s.told)
	if !s.silent {
		l.x.Result(`{"resultType":"complete",` + subscription(id) + `}`)
	}
}

// tearDown ends all listens from the server's side.
func (s *sharedSetServer) tearDown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.open)) {
		s.open[id].x.Send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
		delete(s.open, id)
	}
	clear(s.told)
}

// change changes an item and notifies its listen.
func (s *sharedSetServer) change(item string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version[item]++
	id, ok := s.told[item]
	if !ok {
		return
	}
	method, params := "resources/updated", `"uri":"`+item+`",`
	switch task, isTask := strings.CutPrefix(item, "task:"); {
	case isTask:
		method, params = "tasks", fmt.Sprintf(`"taskId":%q,"status":"working","statusMessage":"%d",`, task, s.version[item])
	case !strings.Contains(item, ":"):
		method, params = item+"/list_changed", ""
	}
	s.open[id].x.Send(`{"jsonrpc":"2.0","method":"notifications/` + method + `","params":{` + params + subscription(id) + `}}`)
}

func (s *sharedSetServer) now(item string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version[item]
}

// asked returns the listens so far, and the cancelled ones.
func (s *sharedSetServer) asked() []string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.history)
}

// subscribed returns the items of the one open listen.
func (s *sharedSetServer) subscribed(t *testing.T) []string {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) > 1 {
		t.Errorf("%d listens are open, want one at a time", len(s.open))
	}
	return slices.Sorted(maps.Keys(s.told))
}

// listenMember is one listen at a sharedSetServer. Like a client, it reads an item when
// it is notified of it.
type listenMember struct {
	*running
	pot   *sharedSetServer
	wants []string

	mu       sync.Mutex
	agreed   []string
	acks     int
	seen     map[string]int // by item, the newest version read
	received []string       // since the acknowledgement
	wrong    []string
}

// join makes a client listen for the items.
func (s *sharedSetServer) join(t *testing.T, c *client.Client, scope *mcp.Scope, items ...string) *listenMember {
	t.Helper()
	m := &listenMember{pot: s, wants: items, seen: map[string]int{}}
	req := in(scope, modernTask(t, "subscriptions/listen", listenParamsOf(items)))
	m.running = launch(t, c, req, m)
	return m
}

func (m *listenMember) leave() {
	m.cancel()
	<-m.done
}

func (m *listenMember) Start(context.Context, *mcp.Request) (func() (*mcp.Result, error), error) {
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "not here")
}

func (*listenMember) Extension() mcp.CallerExtension { return mcp.NoExtension{} }

func (m *listenMember) Notify(_ context.Context, n *mcp.Notification) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n.Method == "notifications/subscriptions/acknowledged" {
		m.acks++
		m.agreed = itemsIn(&n.Params)
		for _, item := range m.agreed {
			m.lookLocked(item)
		}
		return nil
	}
	item := itemOf(n)
	m.received = append(m.received, item)
	m.lookLocked(item)
	return nil
}

// lookLocked reads an item that the member was notified of.
func (m *listenMember) lookLocked(item string) {
	if !slices.Contains(m.wants, item) {
		m.wrong = append(m.wrong, "told of "+item)
	}
	if m.acks != 1 {
		m.wrong = append(m.wrong, fmt.Sprintf("told of %s after %d acknowledgements", item, m.acks))
	}
	m.seen[item] = m.pot.now(item)
}

// itemOf names the item of a notification.
func itemOf(n *mcp.Notification) string {
	if uri, ok := n.Params.Text(mcp.FieldURI); ok {
		return uri
	}
	if id, ok := n.Params.Text(mcp.FieldTaskID); ok {
		return "task:" + id
	}
	return strings.TrimSuffix(strings.TrimPrefix(n.Method, "notifications/"), "/list_changed")
}

// wantReceived checks what was received since the last call. Duplicates count once.
func (m *listenMember) wantReceived(t *testing.T, who string, want ...string) {
	t.Helper()
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	slices.Sort(m.received)
	wantStrings(t, who+" received", slices.Compact(m.received), want)
	m.received = nil
}

// wantUpToDate checks that the member missed nothing and received only its own items.
func (m *listenMember) wantUpToDate(t *testing.T, who string) {
	t.Helper()
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, item := range m.agreed {
		if got, want := m.seen[item], m.pot.now(item); got != want {
			t.Errorf("%s knows version %d of %s, and it is %d", who, got, item, want)
		}
	}
	if len(m.wrong) > 0 {
		t.Errorf("%s: %q", who, m.wrong)
	}
}

// Clients that share a pipe share one listen. A listen that leaves does not silence
// others. If one joins, everything is reported as changed to the others.
func TestOneListenOnAPipe(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newSharedSetServer()
		c, _ := dialLines(t, s.Lines, client.Config{})
		a, b := mcp.NewScope("a", nil), mcp.NewScope("b", nil)
		defer a.End()
		defer b.End()
		lists := s.join(t, c, nil, "tools", "resources")
		wantStrings(t, "listens", s.asked(), []string{"resources tools"})
		one := s.join(t, c, a, "x:1")
		synctest.Wait()
		two := s.join(t, c, b, "x:1", "x:2")
		synctest.Wait()
		lists.wantReceived(t, "the listen for lists", "resources", "tools")
		one.wantReceived(t, "one", "x:1")
		two.wantReceived(t, "two")

		two.leave()
		for _, item := range []string{"x:1", "x:2", "tools"} {
			s.change(item)
		}
		one.wantReceived(t, "one", "x:1")
		lists.wantReceived(t, "the listen for lists", "tools")
		again := s.join(t, c, b, "x:2")
		again.wantReceived(t, "two")
		s.change("x:2")
		again.wantReceived(t, "two", "x:2")
		one.wantReceived(t, "one")
		if got := s.subscribed(t); !slices.Equal(got, []string{"resources", "tools", "x:1", "x:2"}) {
			t.Errorf("the server tells of %q", got)
		}
		one.leave()
		again.leave()
		lists.leave()
		if got := s.subscribed(t); len(got) != 0 {
			t.Errorf("nobody listens, and the server tells of %q", got)
		}
	})
}
