// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/vault"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// memory is a vault.Store in memory, for tests of many runs.
type memory struct {
	mu      sync.Mutex
	records map[string]vault.Sealed
	locks   map[string]chan struct{} // of capacity 1
}

func (m *memory) Names(_ context.Context, prefix string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for name := range m.records {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, nil
}

func (m *memory) Read(_ context.Context, name string) (vault.Sealed, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.records[name]; ok {
		return r, nil
	}
	return vault.Sealed{}, vault.ErrNotFound
}

func (m *memory) Lease(ctx context.Context, names ...string) (vault.Lease, error) {
	l := &memoryLease{memory: m}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		m.mu.Lock()
		lock := m.locks[name]
		if lock == nil {
			lock = make(chan struct{}, 1)
			m.locks[name] = lock
		}
		m.mu.Unlock()
		select {
		case lock <- struct{}{}:
			l.locks = append(l.locks, lock)
		case <-ctx.Done():
			l.Release()
			return nil, ctx.Err()
		}
	}
	return l, nil
}

type memoryLease struct {
	*memory
	locks []chan struct{}
}

func (l *memoryLease) Swap(_ context.Context, name string, old uint64, record vault.Sealed) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.records[name].Generation != old {
		return vault.ErrConflict
	}
	l.records[name] = record
	return nil
}

func (l *memoryLease) Remove(_ context.Context, name string, old uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, ok := l.records[name]; ok && r.Generation != old {
		return vault.ErrConflict
	}
	delete(l.records, name)
	return nil
}

func (l *memoryLease) SetAside(context.Context, string) (string, error) {
	return "", errors.New("a record of this test does not open")
}

func (l *memoryLease) Release() {
	for _, lock := range l.locks {
		<-lock
	}
	l.locks = nil
}

// run is one run of TestRandom: several processes over one vault.
type run struct {
	*world
	t       *testing.T
	rand    *rand.Rand
	sources []*grant.Source
	sent    map[string]client.Credential // the last one of each principal and source
	signed  map[string]bool              // principals with a sign-in and without a sign-out after it
	log     []string

	mu sync.Mutex
}

var principals = []string{"ann", "bob"}

const processes = 3

// No refresh token is sent after its answer has arrived, no grant is used for another principal,
// and no failure deletes a newer grant, whatever happens at once (I12, N2, N8).
func TestRandom(t *testing.T) {
	t.Parallel()
	seeds := 1000
	if testing.Short() {
		seeds = 32
	}
	const parallel = 4
	for part := range parallel {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			for seed := part; seed < seeds && !t.Failed(); seed += parallel {
				oneRun(t, uint64(seed))
			}
		})
	}
}

func oneRun(t *testing.T, seed uint64) {
	t.Helper()
	w := &world{identityServer: newIdentityServer(t), events: new(eventList)}
	w.backend = newBackendOf(t, w.identityServer)
	defer w.backend.Close()
	defer w.Close()
	w.single = seed%2 == 0
	w.noRotate = seed%5 == 0
	store := &memory{records: map[string]vault.Sealed{}, locks: map[string]chan struct{}{}}
	var err error
	if w.vault, err = vault.New(store, [][]byte{make([]byte, vault.MinKey)}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		r := &run{
			world: w, t: t, rand: rand.New(rand.NewPCG(seed, 0)),
			sent: map[string]client.Credential{}, signed: map[string]bool{},
		}
		for range processes {
			r.sources = append(r.sources, w.source(t, nil))
		}
		defer func() {
			for _, s := range r.sources {
				s.Close()
			}
		}()
		for range 8 {
			r.step()
			if t.Failed() {
				t.Logf("seed %d:\n%s", seed, strings.Join(r.log, "\n"))
				return
			}
		}
	})
}

func (r *run) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

// step has some things happen at once, and checks what is left of them.
func (r *run) step() {
	faults := []at{nowhere, nowhere, nowhere, status500, cutBefore, cutAfter}
	fault := faults[r.rand.IntN(len(faults))]
	r.note("--- fault %d", fault)
	var remaining atomic.Int64 // requests meet the fault side by side
	remaining.Store(1 + r.rand.Int64N(3))
	r.set(func() {
		r.fault = func() at {
			if remaining.Add(-1) < 0 {
				return nowhere
			}
			return fault
		}
	})
	var all sync.WaitGroup
	out := map[string]bool{} // principals with a sign-out in this step
	in := map[string]bool{}
	for range 2 + r.rand.IntN(8) {
		p, i := principals[r.rand.IntN(len(principals))], r.rand.IntN(processes)
		s := r.sources[i]
		switch n := r.rand.IntN(20); {
		case n < 10:
			all.Go(func() { r.use(s, p, i) })
		case n < 13:
			all.Go(func() { r.refuse(s, p, i) })
		case n < 16 && !in[p] && !out[p]:
			in[p] = true
			all.Go(func() { r.signIn(s, p) })
		case n == 16 && !in[p]:
			out[p] = true
			all.Go(func() {
				_, err := s.SignOut(r.t.Context(), p)
				r.note("%s signs out at %d: %v", p, i, err)
			})
		case n == 17: // the authorization server ends all grants of a user
			r.set(func() {
				for _, ss := range r.refreshes {
					if ss.user == p {
						ss.ended = true
					}
				}
			})
			r.note("grants of %s end", p)
		}
	}
	all.Wait()
	synctest.Wait()
	for p := range out {
		r.mu.Lock()
		r.signed[p] = false
		r.mu.Unlock()
	}
	r.check()
	if i := r.rand.IntN(3 * processes); i < processes { // a process ends, and starts again
		r.sources[i].Close()
		r.sources[i] = r.source(r.t, nil)
		r.note("%d starts again", i)
	}
	pause := time.Duration(r.rand.Int64N(int64(70 * time.Minute)))
	r.note("%v later", pause)
	time.Sleep(pause)
}

// use asks for a token.
func (r *run) use(s *grant.Source, p string, i int) {
	req, _ := mcp.NewRequest("tools/call", []byte(`{"name":"x"}`)) // it is valid
	req.Principal = p
	c, err := s.For(r.t.Context(), req)
	r.note("%s at %d: %s %v", p, i, bearer(c), err)
	if err != nil {
		return
	}
	r.mu.Lock()
	r.sent[fmt.Sprint(p, i)] = c
	r.mu.Unlock()
	r.set(func() {
		if ss := r.access[bearer(c)]; ss == nil || ss.user != p {
			r.t.Errorf("%s has got %s, which is not one of its tokens", p, bearer(c))
		}
	})
}

// refuse has the backend refuse the last token.
func (r *run) refuse(s *grant.Source, p string, i int) {
	req, _ := mcp.NewRequest("tools/call", []byte(`{"name":"x"}`)) // it is valid
	req.Principal = p
	r.mu.Lock()
	c := r.sent[fmt.Sprint(p, i)]
	r.mu.Unlock()
	err := s.Refused(r.t.Context(), req, c, client.Refusal{Status: http.StatusUnauthorized})
	r.note("%s at %d: %s is refused: %v", p, i, bearer(c), err)
	if err == nil {
		r.use(s, p, i)
	}
}

// signIn signs a principal in.
func (r *run) signIn(s *grant.Source, p string) {
	err := func() error {
		in, err := s.Prepare(r.t.Context(), p, grant.SignInOptions{RedirectURI: redirect})
		if err != nil {
			return err
		}
		code, err := in.Check(url.Values{"state": {in.State}, "code": {r.agree(in, p)}})
		if err != nil {
			return err
		}
		return s.Complete(r.t.Context(), in, code)
	}()
	r.note("%s signs in: %v", p, err)
	if err == nil {
		r.mu.Lock()
		r.signed[p] = true
		r.mu.Unlock()
	}
}

// agree returns the code of an authorization request that the user has agreed to.
func (r *run) agree(in *grant.SignIn, p string) string {
	q, _ := url.Parse(in.URL) // it was made by this program
	var code string
	r.set(func() { code = r.newCode(q.Query(), p) })
	return code
}

// check checks that the vault has the grant of the last sign-in, unless its end is due to the
// authorization server.
func (r *run) check() {
	if n := r.seen().reused; n != 0 {
		r.t.Errorf("%d refresh tokens were sent after their answers", n)
	}
	for _, p := range principals {
		kept, err := r.vault.Grants(r.t.Context(), p, "tickets")
		if err != nil {
			r.t.Fatal(err)
		}
		r.set(func() {
			var latest *session
			for _, ss := range r.refreshes {
				if ss.user == p && ss.done && (latest == nil || ss.n > latest.n) {
					latest = ss
				}
			}
			if !r.signed[p] || latest == nil || latest.ended || latest.lost || latest.codeLost {
				return
			}
			if !slices.ContainsFunc(kept, func(g *vault.Grant) bool { return g.RefreshToken.Reveal() == latest.refresh }) {
				r.t.Errorf("%s has signed in, and the vault has not %s", p, latest.refresh)
			}
		})
	}
}
