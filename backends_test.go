// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/demo"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// As many processes start at a time as there are slots; a start that hangs delays the
// others by slotTime, and they do not start one after another.
func TestStartSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if n := cap(newStartSlots(9)); n != 9 {
			t.Errorf("%d slots, want 9", n)
		}
		free := make(startSlots, minStartSlots)
		began := time.Now()
		var mu sync.Mutex
		running, most := 0, 0
		count := func(by int) {
			mu.Lock()
			defer mu.Unlock()
			running += by
			most = max(most, running)
		}
		var all sync.WaitGroup
		for range 26 {
			all.Go(func() { // ends with its start
				done := free.acquire(t.Context())
				count(+1)
				time.Sleep(time.Second)
				count(-1)
				done()
			})
		}
		all.Wait()
		if took := time.Since(began); most != minStartSlots || took != 7*time.Second {
			t.Errorf("%d at a time, all after %v; want %d and 7s", most, took, minStartSlots)
		}
		for range minStartSlots {
			free.acquire(t.Context()) // these hang
		}
		began = time.Now()
		done := free.acquire(t.Context())
		if took := time.Since(began); took != slotTime {
			t.Errorf("a start waited %v for those that hang, want %v", took, slotTime)
		}
		done()
		done()
		synctest.Wait()
		if len(free) != 0 {
			t.Errorf("%d turns are taken at the end", len(free))
		}
		for range minStartSlots {
			free.acquire(t.Context())
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		free.acquire(ctx)() // returns, and releases nothing
		if len(free) != minStartSlots {
			t.Errorf("%d turns are taken, want %d", len(free), minStartSlots)
		}
		time.Sleep(slotTime)
	})
}

// initialize waits for backends that wait for a slot as for others: discoverTimeout,
// however long the queue is. A list waits for them.
func TestDiscoverDoesNotWaitForStartSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		g := &Gateway{ctx: ctx, info: []byte("{}")}
		queued := &activeBackend{Backend: backend.New(backend.Config{Name: "b"})} // its Run waits
		v := &view{cfg: (&config.Config{}).Effective(), backends: []*activeBackend{queued}, built: true}
		v.offered = v.offers()
		v.catalog = v.build(v.offered)
		v.discovery = g.discoveryOf(v.catalog)
		g.view.Store(v)
		began := time.Now()
		if _, err := g.discover(ctx, &mcp.Request{}); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != discoverTimeout {
			t.Errorf("initialize waited %v, want %v", took, discoverTimeout)
		}
		if _, ok := v.listsPending(catalog.Tools); !ok {
			t.Error("a list does not wait for it")
		}
	})
}

// Two backends with the same name could not be distinguished: the first reload would
// replace one by the other.
func TestBackendNamesAreUnique(t *testing.T) {
	one, two := InProcess{Name: "one", Handler: demo.New()}, InProcess{Name: "two", Handler: demo.New()}
	entry := config.Backend{Name: "one", URL: "http://127.0.0.1:1/mcp"}
	for _, tt := range []struct {
		name    string
		entry   config.Backend
		disable bool
		inside  []InProcess
		refused bool
	}{
		{"none meet", entry, false, []InProcess{two}, false},
		{"entry and process", entry, false, []InProcess{two, one}, true},
		{"two of the process", entry, false, []InProcess{two, two}, true},
		{"a prefix that begins that of an entry", entry, false, []InProcess{{Name: "on", Prefix: new("on"), Handler: two.Handler}}, true},
		{"a prefix that begins another of the process", entry, true, []InProcess{{Name: "a__b", Handler: two.Handler}, {Name: "a", Handler: two.Handler}}, true},
		{"no prefix", entry, false, []InProcess{{Name: "on", Prefix: new(""), Handler: two.Handler}}, false},
		{"an entry that is disabled", entry, true, []InProcess{one}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var cfg config.Config
			tt.entry.Disabled = tt.disable
			cfg.Servers = []config.Backend{tt.entry}
			g, err := New(cfg, Options{InProcess: tt.inside})
			if err == nil {
				err = g.Close()
			}
			wantSharedNames(t, err, tt.refused)
		})
	}
}

// wantSharedNames checks for an error that names the conflicting names, or for none.
func wantSharedNames(t *testing.T, err error, refused bool) {
	t.Helper()
	if problems, ok := errors.AsType[config.Problems](err); ok != refused || (err != nil) != refused || refused && len(problems) != 1 {
		t.Errorf("error %v, want one problem: %v", err, refused)
	}
}

// A reload cannot add a name that a Handler in this process has; the previous
// configuration stays in use.
func TestReloadRefusesDuplicateNames(t *testing.T) {
	g, err := New(config.Config{}, Options{InProcess: []InProcess{{Name: "one", Handler: demo.New()}}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	var cfg config.Config
	cfg.Servers = []config.Backend{{Name: "one", URL: "http://127.0.0.1:1/mcp"}}
	wantSharedNames(t, g.Reload(t.Context(), cfg), true)
	if backends := g.view.Load().backends; len(backends) != 1 || backends[0].client != nil || g.Status().ReloadRefused == nil {
		t.Errorf("%d backends; refusal %v", len(backends), g.Status().ReloadRefused)
	}
}

// A server on the network receives no request because of schemas that point to it, from
// either end, while their tools are listed, refused and called: tools with such
// references are left out, and a dialect and an id are only names.
//
// K1- 2026-07-28 basic/index: "Implementations MUST NOT automatically dereference `$ref`
// values that resolve to a network URI."
func TestSchemasFetchNothing(t *testing.T) {
	var seen atomic.Int32
	canary := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) }))
	defer canary.Close()
	var items []string
	for i, ref := range []string{canary.URL + "/s", "file:///etc/passwd", "ftp" + strings.TrimPrefix(canary.URL, "http") + "/s", strings.TrimPrefix(canary.URL, "http:") + "/s"} {
		for j, keyword := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
			schema := fmt.Sprintf(`{"type":"object","properties":{"a":{%q:%q}}}`, keyword, ref)
			items = append(items, fmt.Sprintf(`{"name":"in%d%d","inputSchema":%s},{"name":"out%d%d","inputSchema":{"type":"object"},"outputSchema":%s}`, i, j, schema, i, j, schema))
		}
	}
	const named = `{"$schema":"%[1]s/dialect","$id":"%[1]s/id","type":"object","properties":{"a":{"$ref":"%[1]s/id#/$defs/b"}},"$defs":{"b":{}}}`
	items = append(items, fmt.Sprintf(`{"name":"named","inputSchema":`+named+`,"outputSchema":`+named+`}`, canary.URL))
	b := mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
		switch req.Method {
		case "server/discover":
			return mcp.NewResult([]byte(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`))
		case "tools/list":
			return mcp.NewResult([]byte(`{"tools":[` + strings.Join(items, ",") + `]}`))
		case "tools/call":
			return mcp.NewResult([]byte(`{"content":[],"structuredContent":{"a":1}}`))
		default:
			<-ctx.Done()
			return nil, ctx.Err()
		}
	})
	g, err := New(config.Config{}, Options{InProcess: []InProcess{{Name: "a", Handler: b}}})
	if err != nil {
		t.Fatal(err)
	}
	res, err := g.Serve(t.Context(), ask(t, nil, "tools/list", `{}`), &callRecorder{})
	if err != nil || strings.Count(string(res.Bytes()), `"inputSchema"`) != 1 {
		t.Errorf("listed %s, %v; want the one that refers to itself", res.Bytes(), err)
	}
	for name, want := range map[string]bool{"a__named": true, "a__in00": false, "a__out00": false} {
		if _, err := g.Serve(t.Context(), ask(t, nil, "tools/call", `{"name":"`+name+`","arguments":{"a":{"$ref":"`+canary.URL+`"}}}`), &callRecorder{}); (err == nil) != want {
			t.Errorf("calling %s: %v", name, err)
		}
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if n := seen.Load(); n != 0 {
		t.Errorf("the server that schemas point to was asked %d times", n)
	}
}

// A gateway with timers that fire late repeatedly reports it in its status and once in
// its log, until it keeps up again (fault 113).
func TestGatewayReportsThatItCannotKeepUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		g, err := New(config.Config{}, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		for late := range 5 {
			if p := g.Status().Problems; len(p) != 0 && late < 3 {
				t.Errorf("problems after %d seconds in which timers were late: %q", late, p)
			}
			g.noteLag(1200 * time.Millisecond)
			time.Sleep(time.Second)
		}
		want := []string{"the gateway cannot keep up: its timers fired up to 1.2s late within the last minute; give it more processor time and memory, or fewer clients (limits.sessions)"}
		if got := g.Status().Problems; !slices.Equal(got, want) {
			t.Errorf("problems %q, want %q", got, want)
		}
		time.Sleep(time.Minute)
		if got := g.Status().Problems; len(got) != 0 {
			t.Errorf("a minute later: %q", got)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "level=WARN msg=\"the gateway cannot keep up: its timers fire late\" late=1.2s"); n != 1 {
			t.Errorf("logged %d times, want once: %s", n, log.String())
		}
	})
}
