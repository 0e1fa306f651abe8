// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/internal/vault"
	"github.com/signalbox-mcp/signalbox/mcp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const backendURL = "https://crm.example/mcp"

// fixture is a Desk with the grants of a backend, which nothing can refresh.
type fixture struct {
	desk   *Desk
	source *grant.Source
	vault  *vault.Opened
	open   atomic.Int64 // pages that are not released
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := new(fixture)
	var err error
	if f.vault, err = vault.Open(t.Context(), vault.Options{Folder: filepath.Join(t.TempDir(), "credentials"), Keys: [][]byte{make([]byte, vault.MinKey)}, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	requests, err := oauth.New(oauth.Config{Backend: backendURL})
	if err != nil {
		t.Fatal(err)
	}
	if f.source, err = grant.NewSource(grant.SourceConfig{Backend: "crm", URL: backendURL, OAuth: requests, Vault: f.vault.Vault}); err != nil {
		t.Fatal(err)
	}
	f.desk, err = New(Config{
		Open: func() (string, func(), error) {
			f.open.Add(1)
			return "https://mcp.example", func() { f.open.Add(-1) }, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) close() {
	f.desk.Close()
	f.source.Close()
}

func (f *fixture) begin(principal, backend string) (*pending, error) {
	return f.desk.begin(context.Background(), &grant.Missing{Backend: backend, Principal: principal, Reason: grant.NeverSignedIn}, f.source)
}

// signIn gives a principal a grant, as another process does.
func (f *fixture) signIn(t *testing.T, principal string) {
	t.Helper()
	err := f.vault.Save(t.Context(), &vault.Grant{
		GrantKey: vault.GrantKey{Principal: principal, Backend: "crm", Issuer: "https://as.example", Resource: backendURL, Client: "c"},
		URL:      backendURL, AccessToken: mcp.NewToken("t"), TokenType: "Bearer", Expires: time.Now().Add(time.Hour), SignedIn: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
}

// There is one pending of a principal at a backend, ten of a principal, and a thousand in all. At
// a limit the oldest one that nothing uses ends (identity attack 37).
func TestPendingsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.close()
		first, err := f.begin("ann", "b0")
		if err != nil {
			t.Fatal(err)
		}
		if again, err := f.begin("ann", "b0"); again != first || err != nil {
			t.Errorf("a second pending of one backend: %v", err)
		}
		for i := 1; i < 100; i++ {
			time.Sleep(time.Second)
			if _, err := f.begin("ann", fmt.Sprintf("b%d", i)); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(f.desk.byID); n != MaxPerPrincipal || f.desk.find(first.id) != nil {
			t.Errorf("%d pendings of one principal, and the oldest is there: %v", n, f.desk.find(first.id) != nil)
		}
		for i := range 2 * MaxPendings {
			if _, err := f.begin(fmt.Sprintf("p%d", i), "crm"); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(f.desk.byID); n != MaxPendings || int(f.open.Load()) != MaxPendings {
			t.Errorf("%d pendings, and %d pages", n, f.open.Load())
		}
	})
}

// What a call waits for is not replaced: there is no room then.
func TestPendingsInUseStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.close()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan outcome, MaxPerPrincipal)
		for i := range MaxPerPrincipal {
			p, err := f.begin("ann", fmt.Sprintf("b%d", i))
			if err != nil {
				t.Fatal(err)
			}
			go func() { ended <- f.desk.wait(ctx, p, time.Minute, func() {}) }()
		}
		synctest.Wait()
		if _, err := f.begin("ann", "more"); !errors.Is(err, ErrFull) {
			t.Errorf("error %v, want ErrFull", err)
		}
		if _, err := f.begin("bob", "more"); err != nil {
			t.Error(err)
		}
		cancel()
		for range MaxPerPrincipal {
			<-ended
		}
	})
}

// Everything that waits ends: with the sign-in, with its own time, with the pending, and with the
// Desk (N13).
func TestWaitsEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, f *fixture)
		most time.Duration
		want outcome
		took time.Duration
	}{
		{"the user signs in", func(t *testing.T, f *fixture) { f.signIn(t, "ann") }, time.Hour, done, time.Second},
		{"the user is late", func(*testing.T, *fixture) {}, time.Minute, open, time.Minute},
		{"the pending expires", func(*testing.T, *fixture) {}, time.Hour, expired, Lifetime},
		{"the desk closes", func(_ *testing.T, f *fixture) { f.desk.Close() }, time.Hour, expired, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t)
				defer f.close()
				p, err := f.begin("ann", "crm")
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				got := make(chan outcome)
				go func() { got <- f.desk.wait(t.Context(), p, tt.most, func() {}) }()
				synctest.Wait()
				tt.do(t, f)
				if how, took := <-got, time.Since(began); how != tt.want || took > tt.took {
					t.Errorf("outcome %d after %v, want %d within %v", how, took, tt.want, tt.took)
				}
			})
		})
	}
}

// Tokens are tried at most ten times a minute from one address, and a hundred times at once from
// all of them.
func TestAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTokens()
		n := 0
		for range 100 {
			if a.allow("192.0.2.1") {
				n++
			}
		}
		if n != 10 || !a.allow("192.0.2.2") {
			t.Errorf("%d attempts of one address", n)
		}
		n = 0
		for i := range 1000 {
			if a.allow(fmt.Sprintf("10.0.%d.%d", i/250, i%250)) {
				n++
			}
		}
		if n > 100 {
			t.Errorf("%d attempts of many addresses", n)
		}
		time.Sleep(time.Minute)
		if !a.allow("192.0.2.1") {
			t.Error("no attempt after a minute")
		}
	})
}
