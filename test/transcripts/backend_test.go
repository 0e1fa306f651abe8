// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package transcripts_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// backend is one MCP server with all of its answers in the transcript. It lists what
// the transcript sets; a call waits for the lines that answer it.
type backend struct {
	w    *world
	name string

	mu           sync.Mutex
	lists        map[string][]json.RawMessage // by the member of the result
	instructions string                       // as JSON
	mute         bool
	lacks        []string        // capabilities that it does not declare
	page         int             // items of a page; 0: all
	slow         time.Duration   // before each answer about itself
	hung         chan struct{}   // closed to continue; nil while it answers
	shown        map[string]bool // methods that are shown besides calls
	calls        map[string]*scriptedCall
	lastCall     int
	tasks        map[string]object // by id; nil if it has none
	listens      map[*watcher]bool
	watchers     map[string]int // how many listens there are for each resource
	unwatched    bool           // it declares no subscriptions and sends no updates
	refused      []string       // it sends no updates for these
	current      *instance
	lastScope    *mcp.Scope // of the last call
	locked       bool       // it refuses calls without the token of a user

	own map[string]map[string][]json.RawMessage // the lists of users, by kind; it refuses all without the token of one

	wire *wire // the transcript has its exact bytes; nil if a server of ours speaks for it
}

// instance is one life of a backend: what a dead one receives is not shown.
type instance struct {
	dead atomic.Bool
	peer *peer // nil in this process
}

// scriptedCall is one call while it is served.
type scriptedCall struct {
	label string
	steps chan step
}

// step is one line of the transcript for a call. It ends the call if it returns a
// result or an error.
type step func(ctx context.Context, p *scriptedCall, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error)

func newBackend(w *world, name string, isWire bool) *backend {
	b := &backend{
		w: w, name: name, lists: make(map[string][]json.RawMessage), shown: make(map[string]bool),
		calls: make(map[string]*scriptedCall), listens: make(map[*watcher]bool), watchers: make(map[string]int),
	}
	if isWire {
		b.wire = &wire{b: b}
	}
	b.start()
	w.t.Cleanup(b.die)
	return b
}

func (b *backend) show(life *instance, label, text string) {
	if !life.dead.Load() {
		b.w.show(0, "backend "+b.name, label, text)
	}
}

// do executes one line of the transcript.
func (b *backend) do(args []string) bool {
	switch verb := args[0]; verb {
	case "tools", "prompts", "resources", "resourceTemplates":
		// backend a> tools ["x", {"name":"y", ...}]; a string is an item with only that
		// name. backend a> tools t*1500 makes as many. backend a> tools ["x"] ann is for one
		// user; it then lists for users only.
		return b.offer(verb, args[1], strings.Join(args[2:], ""))
	case "discover": // backend a> discover "Be kind."; the instructions
		b.set(func() { b.instructions = args[1] })
	case "task": // backend a> task t1 {"status":"completed","result":{...}}; the first declares that it has tasks
		return b.setTask(args[1], args[2]) && b.notifyTask(args[1])
	case "mute": // backend a> mute; it does not announce changes, and declares so
		b.set(func() { b.mute = true })
	case "unwatched": // backend a> unwatched; its resources have no subscriptions, and it declares so
		b.set(func() { b.unwatched = true })
	case "refuse": // backend a> refuse "file:///a"; that resource has no subscription
		b.set(func() { b.refused = append(b.refused, readURIs(args[1])...) })
	case "update": // backend a> update "file:///a"; subscribers are notified. backend a> update "x:/a/b" "x:/a" notifies the subscribers of the other
		return b.update(args[1], readURIs(args[len(args)-1])[0])
	case "lack": // backend a> lack prompts completions; it declares no such capabilities
		b.set(func() { b.lacks = append(b.lacks, args[1:]...) })
	case "pages": // backend a> pages 2; so many items on each
		n, err := strconv.Atoi(args[1])
		b.set(func() { b.page = n })
		return err == nil
	case "slow": // backend a> slow 5s; before it answers discover and lists
		d, err := time.ParseDuration(args[1])
		b.set(func() { b.slow = d })
		return err == nil
	case "show": // backend a> show tools/list; requests with that method are shown from now on
		b.set(func() { b.shown[args[1]] = true })
	case "ask": // backend a> ask tasks/get {"taskId":"t"}; outside every call, in the session of the last one
		return b.askUnrelated(args[1], args[2])
	case "hang": // backend a> hang; it accepts everything and answers nothing
		b.set(func() { b.hung = make(chan struct{}) })
	case "resume": // backend a> resume; and answers what it has accepted
		b.set(func() { close(b.hung); b.hung = nil })
	case "locked": // backend a> locked; over HTTP it refuses calls with 401, unless the user has signed in
		b.set(func() { b.locked = true })
	case "die": // backend a> die; its connections break and no new ones are made
		b.die()
	case "restart": // backend a> restart
		b.start()
	default: // backend a> 1 result {...}
		return b.step(verb, args[1:])
	}
	return true
}

func (b *backend) set(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// offer changes a list and announces it.
func (b *backend) offer(kind, raw, user string) bool {
	items, err := readItems(kind, raw)
	if err != nil {
		return false
	}
	method := map[string]string{"tools": "tools", "prompts": "prompts"}[kind]
	if method == "" {
		method = "resources"
	}
	for _, listener := range b.change(kind, user, items) {
		listener.ch <- notice{method: "notifications/" + method + "/list_changed"}
	}
	return true
}

func (b *backend) change(kind, user string, items []json.RawMessage) []*watcher {
	b.mu.Lock()
	defer b.mu.Unlock()
	if user == "" {
		b.lists[kind] = items
		return slices.Collect(maps.Keys(b.listens))
	}
	if b.own == nil {
		b.own = make(map[string]map[string][]json.RawMessage)
	}
	if b.own[user] == nil {
		b.own[user] = make(map[string][]json.RawMessage)
	}
	b.own[user][kind] = items
	return slices.DeleteFunc(slices.Collect(maps.Keys(b.listens)), func(l *watcher) bool { return l.user != user })
}

func readItems(kind, raw string) ([]json.RawMessage, error) {
	if prefix, count, ok := strings.Cut(raw, "*"); ok && raw[0] != '[' {
		n, err := strconv.Atoi(count)
		items := make([]json.RawMessage, n)
		for i := range items {
			items[i] = item(kind, fmt.Sprintf("%q", prefix+fmt.Sprintf("%04d", i)))
		}
		return items, err
	}
	var items []json.RawMessage
	err := json.Unmarshal([]byte(raw), &items)
	for i := range items {
		items[i] = item(kind, string(items[i]))
	}
	return items, err
}

// item returns an item, given as JSON or only by its name.
func item(kind, raw string) json.RawMessage {
	if raw[0] != '"' {
		return json.RawMessage(raw)
	}
	switch kind {
	case "tools":
		raw = `{"name":` + raw + `,"inputSchema":{"type":"object"}}`
	case "prompts":
		raw = `{"name":` + raw + `}`
	case "resources":
		raw = `{"uri":` + raw + `,"name":` + raw + `}`
	default:
		raw = `{"uriTemplate":` + raw + `,"name":` + raw + `}`
	}
	return json.RawMessage(raw)
}

// serveIn returns the backend as a Handler, in one life.
func (b *backend) serveIn(life *instance) mcp.Handler {
	return mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
		if b.isShown(req.Method) {
			b.show(life, "", strings.TrimSpace(req.Method+" "+paramsOf(req)))
		}
		if err := b.awaitTurn(ctx, req.Method); err != nil {
			return nil, err
		}
		switch req.Method {
		case "server/discover":
			return mcp.NewResult([]byte(b.hello()))
		case "tools/list", "prompts/list", "resources/list", "resources/templates/list":
			return b.list(req)
		case "subscriptions/listen":
			return b.listen(ctx, life, req, caller)
		case "tools/call", "prompts/get", "resources/read", "completion/complete":
			b.set(func() { b.lastScope = req.Scope })
			return b.serveCall(ctx, life, req, caller)
		case "logging/setLevel", "notifications/roots/list_changed", "notifications/tasks/status":
			return mcp.NewResult([]byte("{}"))
		case "tasks/get", "tasks/update", "tasks/cancel":
			return b.serveTask(life, req)
		default:
			return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no method %q", req.Method)
		}
	})
}

func (b *backend) isShown(method string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.shown[method]
}

// awaitTurn waits while the backend hangs, and for its delay.
func (b *backend) awaitTurn(ctx context.Context, method string) error {
	b.mu.Lock()
	hung, slow := b.hung, b.slow
	b.mu.Unlock()
	if hung != nil {
		select {
		case <-hung:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if slow == 0 || !strings.HasSuffix(method, "/list") && method != "server/discover" {
		return nil
	}
	select {
	case <-time.After(slow):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *backend) hello() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	caps := map[string]any{"completions": struct{}{}, "logging": struct{}{}}
	for _, k := range []string{"tools", "prompts", "resources"} {
		caps[k] = map[string]bool{"listChanged": !b.mute}
	}
	if !b.unwatched {
		caps["resources"] = map[string]bool{"listChanged": !b.mute, "subscribe": true}
	}
	maps.DeleteFunc(caps, func(name string, _ any) bool { return slices.Contains(b.lacks, name) })
	if b.tasks != nil {
		caps["extensions"] = map[string]any{"io.modelcontextprotocol/tasks": struct{}{}}
	}
	raw, err := json.Marshal(caps)
	if err != nil {
		return "{}"
	}
	instructions := ""
	if b.instructions != "" {
		instructions = `,"instructions":` + b.instructions
	}
	return fmt.Sprintf(`{"supportedVersions":["2026-07-28"],"capabilities":%s%s,"_meta":{%q:{"name":%q,"version":"1"}}}`,
		raw, instructions, serverInfo, b.name)
}

// list answers one page. A cursor is the number of its first item.
func (b *backend) list(req *mcp.Request) (*mcp.Result, error) {
	kind := map[string]string{
		"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates",
	}[req.Method]
	b.mu.Lock()
	items, size := b.lists[kind], b.page
	if b.own != nil {
		items = b.own[req.Principal][kind]
	}
	b.mu.Unlock()
	cursor, _ := req.Params.Text(mcp.FieldCursor)
	from, _ := strconv.Atoi(cursor)
	to := len(items)
	next := ""
	if size > 0 && from+size < to {
		to = from + size
		next = fmt.Sprintf(`,"nextCursor":"%d"`, to)
	}
	raw, err := json.Marshal(append([]json.RawMessage{}, items[from:to]...))
	if err != nil {
		return nil, err
	}
	return mcp.NewResult(fmt.Appendf(nil, `{%q:%s%s}`, kind, raw, next))
}
