// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// keysOf returns the keys of letters.
func keysOf(letters ...string) (keys [][]byte) {
	for _, letter := range letters {
		keys = append(keys, secretOf(letter))
	}
	return keys
}

func secretOf(letter string) []byte { return []byte(strings.Repeat(letter, MinKey)) }

// newVault returns a vault in a folder, with the keys of letters, and its log.
func newVault(t *testing.T, folder string, letters ...string) (*Vault, *bytes.Buffer) {
	t.Helper()
	store, err := OpenFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	v, err := New(store, keysOf(letters...), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return v, &log
}

var aliceKey = GrantKey{Principal: "corp:alice", Backend: "github", Issuer: "https://as.example", Resource: "https://api.example/mcp", Client: "abc"}

func aliceGrant() *Grant {
	return &Grant{
		GrantKey: aliceKey, AccessToken: mcp.NewToken("access-1"), RefreshToken: mcp.NewToken("refresh-1"),
		TokenType: "Bearer", Scopes: []string{"repo", "user"}, Expires: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC),
		SignedIn: time.Date(2026, 11, 26, 11, 0, 0, 0, time.UTC), Refreshed: time.Date(2026, 11, 26, 11, 30, 0, 0, time.UTC),
	}
}

// tokens compares tokens by their texts.
var tokens = cmp.Comparer(func(a, b mcp.Token) bool { return a.Reveal() == b.Reveal() })

func mustSave(t *testing.T, v *Vault, r Record) {
	t.Helper()
	if err := v.Save(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// A list of the names finds the grants of each owner, also after a change of keys, and reads what they
// are by then.
func TestListing(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "credentials")
	v, _ := newVault(t, folder, "a")
	for i := range 20 {
		mustSave(t, v, &Grant{GrantKey: GrantKey{Principal: fmt.Sprint(i), Backend: "b"}, AccessToken: mcp.NewToken(fmt.Sprint("old", i))})
	}
	v, _ = newVault(t, folder, "b", "a")
	all, err := v.Listing(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	g := &Grant{GrantKey: GrantKey{Principal: "7", Backend: "b"}}
	if err := v.Load(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if err := v.Delete(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	for i := range 21 {
		want := []string{fmt.Sprint("old", i)}
		if i == 7 || i == 20 {
			want = nil
		}
		found, err := all.Grants(t.Context(), fmt.Sprint(i), "b")
		var got []string
		for _, g := range found {
			got = append(got, g.AccessToken.Reveal())
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("owner %d: %q, error %v, want %q", i, got, err, want)
		}
	}
}

// Records of all kinds are as they were saved.
func TestRecords(t *testing.T) {
	t.Parallel()
	v, _ := newVault(t, filepath.Join(t.TempDir(), "credentials"), "a")
	registered := time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)
	for _, tt := range []struct{ saved, loaded Record }{
		{aliceGrant(), &Grant{GrantKey: aliceKey}},
		{&Grant{GrantKey: GrantKey{Backend: "github"}, AccessToken: mcp.NewToken("anonymous")}, &Grant{GrantKey: GrantKey{Backend: "github"}}},
		{
			&Registration{Issuer: "https://as.example", RedirectURI: "http://127.0.0.1:8765/cb", Client: "c", Secret: mcp.NewToken("s"), SecretExpires: registered.Add(time.Hour), AuthMethod: "client_secret_post", Registered: registered},
			&Registration{Issuer: "https://as.example", RedirectURI: "http://127.0.0.1:8765/cb"},
		},
		{&Binding{Backend: "github", Client: "abc", Issuer: "https://as.example"}, &Binding{Backend: "github", Client: "abc"}},
		{
			&IDToken{Principal: "corp:ann", Issuer: "https://id.example", Client: "gw", Token: mcp.NewToken("i"), Expires: registered.Add(time.Hour), SignedIn: registered},
			&IDToken{Principal: "corp:ann", Issuer: "https://id.example", Client: "gw"},
		},
	} {
		if err := v.Load(t.Context(), tt.loaded); !errors.Is(err, ErrNotFound) {
			t.Errorf("%T: loaded before it was saved: %v", tt.saved, err)
		}
		mustSave(t, v, tt.saved)
		if tt.saved.meta().Generation == 0 || tt.saved.meta().Saved.IsZero() {
			t.Errorf("%T: no generation or time: %+v", tt.saved, tt.saved.meta())
		}
		if err := v.Load(t.Context(), tt.loaded); err != nil {
			t.Errorf("%T: %v", tt.saved, err)
		}
		if diff := cmp.Diff(tt.saved, tt.loaded, tokens); diff != "" {
			t.Errorf("%T (-saved +loaded):\n%s", tt.saved, diff)
		}
	}
}

// A bit of a record is changed, at each byte. The owner is signed out, and the file is kept
// (identity fault 28).
func TestChangedBits(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "credentials")
	v, log := newVault(t, path, "a")
	g := aliceGrant()
	mustSave(t, v, g)
	name := v.names(g.identity())[0]
	file := filepath.Join(path, name)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		changed := slices.Clone(text)
		changed[i] ^= 1 << (i % 8)
		if err := os.WriteFile(file, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := v.List(t.Context()); err != nil || len(c.Grants) != 0 || len(c.Unopened) != 1 || c.Unopened[0].Name != name {
			t.Fatalf("byte %d: listed as %+v, %v", i, c, err)
		}
		if found, err := v.Grants(t.Context(), g.Principal, g.Backend); err != nil || len(found) != 0 {
			t.Fatalf("byte %d: found %v, %v", i, found, err)
		}
		if err := v.Load(t.Context(), &Grant{GrantKey: aliceKey}); !errors.Is(err, ErrNotFound) {
			t.Fatalf("byte %d: %v", i, err)
		}
		aside := file + asideSuffix + "1"
		kept, err := os.ReadFile(aside)
		if err != nil || !bytes.Equal(kept, changed) {
			t.Fatalf("byte %d: kept %q, %v", i, kept, err)
		}
		if !strings.Contains(log.String(), aside) || strings.Contains(log.String(), "access-1") {
			t.Fatalf("byte %d: logged %s", i, log)
		}
		log.Reset()
		if err := os.Remove(aside); err != nil {
			t.Fatal(err)
		}
	}
	// With a byte more or less, too.
	for _, changed := range [][]byte{text[:len(text)-1], append(slices.Clone(text), '\n'), nil} {
		if err := os.WriteFile(file, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := v.Load(t.Context(), &Grant{GrantKey: aliceKey}); !errors.Is(err, ErrNotFound) {
			t.Errorf("%d bytes of %d: %v", len(changed), len(text), err)
		}
	}
	if files, _ := filepath.Glob(file + asideSuffix + "*"); len(files) != 3 {
		t.Errorf("set aside: %v, want three files", files)
	}
	// The user signs in again.
	fresh := aliceGrant()
	mustSave(t, v, fresh)
	if c, err := v.List(t.Context()); err != nil || len(c.Grants) != 1 || len(c.Unopened) != 0 {
		t.Errorf("after a new sign-in: %+v, %v", c, err)
	}
}

// Two records that were exchanged do not open, in whole or in part, and neither does one of
// an earlier generation with the number of a later one (identity invariant N2).
func TestExchangedRecords(t *testing.T) {
	t.Parallel()
	other := func(change func(*Grant)) *Grant {
		g := aliceGrant()
		change(g)
		g.AccessToken = mcp.NewToken("of another one")
		return g
	}
	for name, bob := range map[string]Record{
		"principal":    other(func(g *Grant) { g.Principal = "corp:bob" }),
		"backend":      other(func(g *Grant) { g.Backend = "gitlab" }),
		"issuer":       other(func(g *Grant) { g.Issuer = "https://as.example/" }),
		"resource":     other(func(g *Grant) { g.Resource = "" }),
		"client":       other(func(g *Grant) { g.Client = "abcd" }),
		"shifted":      other(func(g *Grant) { g.Resource, g.Client = g.Resource+"a", "bc" }),
		"registration": &Registration{Issuer: aliceKey.Issuer, Client: "c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "credentials")
			v, _ := newVault(t, path, "a")
			alice := aliceGrant()
			mustSave(t, v, alice)
			mustSave(t, v, bob)
			a, b := filepath.Join(path, v.names(alice.identity())[0]), filepath.Join(path, v.names(bob.identity())[0])
			textA, errA := os.ReadFile(a)
			textB, errB := os.ReadFile(b)
			if err := errors.Join(errA, errB); err != nil {
				t.Fatal(err)
			}
			linesA, linesB := strings.SplitAfter(string(textA), "\n"), strings.SplitAfter(string(textB), "\n")
			for _, mixed := range []string{
				string(textB), // the whole record
				linesA[0] + linesB[1] + linesB[2] + linesB[3], // with the generation
				linesA[0] + linesA[1] + linesA[2] + linesB[3], // the content
				linesB[0] + linesA[1] + linesA[2] + linesA[3], // the generation
				linesA[0] + linesA[1] + linesB[2] + linesA[3], // the key
			} {
				if err := os.WriteFile(a, []byte(mixed), 0o600); err != nil {
					t.Fatal(err)
				}
				got := &Grant{GrantKey: aliceKey}
				if err := v.Load(t.Context(), got); !errors.Is(err, ErrNotFound) {
					t.Errorf("opened as %s: %v", got.AccessToken.Reveal(), err)
				}
			}
			// Also not the content of one with the same generation.
			twin := v.keys[0].seal(filepath.Base(b), bob.identity(), alice.Generation, []byte("{}"))
			content := strings.SplitAfter(string(twin), "\n")[2]
			if err := os.WriteFile(a, []byte(linesA[0]+linesA[1]+linesA[2]+content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := v.Load(t.Context(), &Grant{GrantKey: aliceKey}); !errors.Is(err, ErrNotFound) {
				t.Errorf("opened the content of another record: %v", err)
			}
			// Nor one that was sealed with the key for the name of another one.
			mistaken := header + "17\n" + string(v.keys[0].seal(filepath.Base(a), bob.identity(), 17, []byte("{}")))
			if err := os.WriteFile(a, []byte(mistaken), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := v.Load(t.Context(), &Grant{GrantKey: aliceKey}); !errors.Is(err, ErrNotFound) {
				t.Errorf("opened another record: %v", err)
			}
			if err := errors.Join(os.WriteFile(a, textB, 0o600), os.WriteFile(b, textA, 0o600)); err != nil {
				t.Fatal(err)
			}
			if c, err := v.List(t.Context()); err != nil || len(c.Grants)+len(c.Registrations) != 0 || len(c.Unopened) != 2 {
				t.Errorf("listed exchanged records: %+v, %v", c, err)
			}
		})
	}
}

// A change is made for the current generation only, and a generation is not used again
// (identity invariant N8).
func TestGenerations(t *testing.T) {
	t.Parallel()
	v, _ := newVault(t, filepath.Join(t.TempDir(), "credentials"), "a")
	ctx := t.Context()
	g := aliceGrant()
	mustSave(t, v, g)
	if err := v.Save(ctx, aliceGrant()); !errors.Is(err, ErrConflict) {
		t.Errorf("saved as new again: %v", err)
	}
	stale := *g
	g.AccessToken = mcp.NewToken("access-2")
	mustSave(t, v, g)
	before := stale.Meta
	if err := v.Save(ctx, &stale); !errors.Is(err, ErrConflict) || stale.Meta != before {
		t.Errorf("saved in exchange for an older generation: %v", err)
	}
	if err := v.Delete(ctx, &stale); !errors.Is(err, ErrConflict) {
		t.Errorf("deleted an older generation: %v", err)
	}
	last := *g
	if err := v.Delete(ctx, g); err != nil {
		t.Fatal(err)
	}
	if err := v.Load(ctx, &Grant{GrantKey: aliceKey}); !errors.Is(err, ErrNotFound) {
		t.Errorf("loaded after it was deleted: %v", err)
	}
	if err := v.Save(ctx, &last); !errors.Is(err, ErrConflict) {
		t.Errorf("saved in exchange for a deleted generation: %v", err)
	}
	again := aliceGrant()
	mustSave(t, v, again)
	if again.Generation <= last.Generation {
		t.Errorf("generation %d after %d was deleted", again.Generation, last.Generation)
	}
	if err := v.Delete(ctx, &last); !errors.Is(err, ErrConflict) {
		t.Errorf("the failure of a deleted grant deleted the next one: %v", err)
	}
}

// Three processes change one record. Each change is made once (identity fault 26).
func TestContention(t *testing.T) {
	t.Parallel()
	changes := 1000
	if testing.Short() {
		changes = 60
	}
	path := filepath.Join(t.TempDir(), "credentials")
	v, _ := newVault(t, path, "a")
	g := aliceGrant()
	g.RefreshToken = mcp.NewToken("0")
	mustSave(t, v, g)
	var processes []*child
	for range 3 {
		processes = append(processes, start(t, "contend", path, strconv.Itoa(changes)))
	}
	won := make(map[string]bool)
	conflicts := 0
	for _, p := range processes {
		lines, err := p.rest()
		if err != nil {
			t.Fatalf("%v: %s", err, &p.err)
		}
		for _, line := range lines {
			switch {
			case line == "conflict":
				conflicts++
			case won[line]:
				t.Errorf("two changes to %s", line)
			default:
				won[line] = true
			}
		}
	}
	if err := v.Load(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	if got := g.RefreshToken.Reveal(); got != strconv.Itoa(3*changes) || len(won) != 3*changes {
		t.Errorf("the count is %s with %d winners, want %d", got, len(won), 3*changes)
	}
	if conflicts == 0 && !testing.Short() { // few changes may not meet
		t.Error("there was no conflict; the processes have not met")
	}
	t.Logf("%d changes, %d conflicts", len(won), conflicts)
}

// contend NUMBER: counts in the refresh token, half of the times with the lock, and
// reports each number that it has reached.
var _ = addChild("contend", func(ctx context.Context, folder *Folder, args []string) error {
	v, err := childVault(folder, "a")
	if err != nil {
		return err
	}
	changes, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	for done := 0; done < changes; {
		g := &Grant{GrantKey: aliceKey}
		load, save, unlock := v.Load, v.Save, func() {}
		if done%2 == 0 {
			l, err := v.Lock(ctx, g)
			if err != nil {
				return err
			}
			load, save, unlock = l.Load, l.Save, l.Unlock
		}
		err := load(ctx, g)
		if err == nil {
			n, _ := strconv.Atoi(g.RefreshToken.Reveal())
			g.RefreshToken = mcp.NewToken(strconv.Itoa(n + 1))
			err = save(ctx, g)
		}
		unlock()
		switch {
		case err == nil:
			fmt.Println(g.RefreshToken.Reveal())
			done++
		case errors.Is(err, ErrConflict) && done%2 == 1:
			fmt.Println("conflict")
		default:
			return err
		}
	}
	return nil
})

// A new key seals what is saved, and the old one opens until it is removed. What it has
// sealed is then not found and not touched, and is there again with it (identity fault 40).
func TestKeys(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "credentials")
	old, _ := newVault(t, path, "a")
	moved, left := aliceGrant(), aliceGrant()
	left.Principal = "corp:bob"
	mustSave(t, old, moved)
	mustSave(t, old, left)

	both, _ := newVault(t, path, "b", "a")
	if err := both.Load(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	mustSave(t, both, moved)
	if found, err := both.Grants(t.Context(), moved.Principal, moved.Backend); err != nil || len(found) != 1 || found[0].Generation != moved.Generation {
		t.Errorf("found %v, %v", found, err)
	}
	orphans := func(letters string) *Orphans {
		t.Helper()
		o := Options{Folder: path, KeyFile: filepath.Join(t.TempDir(), "credentials.key")}
		for _, letter := range letters {
			o.Keys = append(o.Keys, secretOf(string(letter)))
		}
		found, err := FindOrphans(t.Context(), o)
		if err != nil {
			t.Error(err)
		}
		return found
	}
	newID, oldID := both.keys[0].id, both.keys[1].id
	for letters, want := range map[string]map[string]int{"b": {oldID: 1}, "a": {newID: 1}, "c": {oldID: 1, newID: 1}, "": {oldID: 1, newID: 1}} {
		if o := orphans(letters); o == nil || !maps.Equal(o.Sealed, want) {
			t.Errorf("with the keys %q: %+v, want %v", letters, o, want)
		}
	}
	if o := orphans("cab"); o != nil {
		t.Errorf("with both: %+v", o)
	}

	alone, log := newVault(t, path, "b")
	if err := alone.Load(t.Context(), &Grant{GrantKey: moved.GrantKey}); err != nil {
		t.Errorf("what was sealed with the new key: %v", err)
	}
	if err := alone.Load(t.Context(), &Grant{GrantKey: left.GrantKey}); !errors.Is(err, ErrNotFound) {
		t.Errorf("what was sealed with the old key: %v", err)
	}
	c, err := alone.List(t.Context())
	if err != nil || len(c.Grants) != 1 || len(c.Unopened) != 1 || !c.Unopened[0].Other {
		t.Errorf("listed %+v, %v", c, err)
	}
	if err := old.Load(t.Context(), &Grant{GrantKey: left.GrantKey}); err != nil {
		t.Errorf("the old key again: %v", err)
	}
	if log.Len() > 0 {
		t.Errorf("logged: %s", log)
	}
	for _, wrong := range [][][]byte{nil, {[]byte("short")}} {
		if _, err := New(alone.store, wrong, alone.log); err == nil {
			t.Errorf("a vault with the keys %q", wrong)
		}
	}
}

// A movingStore calls move once, after the first record that was not found.
type movingStore struct {
	Store
	move func()
}

func (s *movingStore) Read(ctx context.Context, name string) (Sealed, error) {
	sealed, err := s.Store.Read(ctx, name)
	if move := s.move; move != nil && errors.Is(err, ErrNotFound) {
		s.move = nil
		move()
	}
	return sealed, err
}

// A record is found also if it is sealed with the new key while it is looked for.
func TestMovesWhileLoading(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "credentials")
	old, _ := newVault(t, path, "a")
	g := aliceGrant()
	mustSave(t, old, g)
	v, _ := newVault(t, path, "b", "a")
	other, _ := newVault(t, path, "b", "a")
	v.store = &movingStore{v.store, func() { mustSave(t, other, g) }}
	if err := v.Load(t.Context(), &Grant{GrantKey: aliceKey}); err != nil {
		t.Error(err)
	}
}

// Processes with the same keys in another order lock a record without waiting for each other
// for ever.
func TestLocksInAnyOrder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "credentials")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for _, letters := range [][]string{{"a", "b"}, {"b", "a"}} {
		v, _ := newVault(t, path, letters...)
		wg.Go(func() { // ends after its locks, or with ctx
			for range 200 {
				l, err := v.Lock(ctx, aliceGrant())
				if err != nil {
					t.Error(err)
					return
				}
				l.Unlock()
			}
		})
	}
	wg.Wait()
}

// The issuer of a client id is the first one, also if several ask at once.
func TestBind(t *testing.T) {
	t.Parallel()
	v, _ := newVault(t, filepath.Join(t.TempDir(), "credentials"), "a")
	results := make(chan string)
	const callers = 8
	for i := range callers {
		go func() { // ends when its result is received
			issuer, err := v.Bind(t.Context(), "github", "abc", fmt.Sprintf("https://as%d.example", i))
			results <- fmt.Sprint(issuer, err)
		}()
	}
	first := <-results
	for range callers - 1 {
		if next := <-results; next != first {
			t.Errorf("bound to %s and to %s", first, next)
		}
	}
	if issuer, err := v.Bind(t.Context(), "gitlab", "abc", "https://other.example"); issuer != "https://other.example" || err != nil {
		t.Errorf("the same id of another backend: %s, %v", issuer, err)
	}
}

// Grants and registrations are found by a part of their keys.
func TestFind(t *testing.T) {
	t.Parallel()
	v, _ := newVault(t, filepath.Join(t.TempDir(), "credentials"), "a")
	if found, err := v.Grants(t.Context(), "corp:alice", "github"); err != nil || len(found) != 0 {
		t.Errorf("found %v, %v before there is a folder", found, err)
	}
	for _, principal := range []string{"corp:alice", "corp:bob"} {
		for _, issuer := range []string{"https://as.example", "https://as2.example"} {
			g := aliceGrant()
			g.Principal, g.Issuer = principal, issuer
			mustSave(t, v, g)
			mustSave(t, v, &Registration{Issuer: issuer, RedirectURI: "http://127.0.0.1/" + principal})
		}
	}
	found, err := v.Grants(t.Context(), "corp:alice", "github")
	if err != nil || len(found) != 2 || found[0].Issuer == found[1].Issuer || found[0].Principal != "corp:alice" || found[1].Principal != "corp:alice" {
		t.Errorf("grants %+v, %v", found, err)
	}
	if none, err := v.Grants(t.Context(), "", "github"); err != nil || len(none) != 0 {
		t.Errorf("grants of the anonymous principal: %v, %v", none, err)
	}
	registrations, err := v.Registrations(t.Context(), "https://as.example")
	if err != nil || len(registrations) != 2 {
		t.Errorf("registrations %v, %v", registrations, err)
	}
	c, err := v.List(t.Context())
	if err != nil || len(c.Grants) != 4 || len(c.Registrations) != 4 || c.Grants[0].Principal != "corp:alice" || c.Grants[3].Principal != "corp:bob" {
		t.Errorf("listed %+v, %v", c, err)
	}
}

// Nothing of a record can be read in its folder.
func TestNothingIsReadable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "credentials")
	v, _ := newVault(t, path, "a")
	g := aliceGrant()
	mustSave(t, v, g)
	files, err := os.ReadDir(path)
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(path, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"alice", "github", "example", "abc", "access", "refresh", "Bearer", "repo"} {
			if strings.Contains(file.Name()+string(text), word) {
				t.Errorf("%s has %q:\n%s", file.Name(), word, text)
			}
		}
	}
	// The same key has another name with another secret.
	other, _ := newVault(t, path, "b")
	if other.names(g.identity())[0] == v.names(g.identity())[0] {
		t.Error("the name does not depend on the secret")
	}
	if text := fmt.Sprintf("%v %+v %#v", g, g, g); strings.Contains(text, "access-1") || strings.Contains(text, "refresh-1") || strings.Contains(text, "id-1") {
		t.Errorf("printed: %s", text)
	}
}

// Mistakes of a caller, and keys that cannot be stored.
func TestMistakes(t *testing.T) {
	t.Parallel()
	v, _ := newVault(t, filepath.Join(t.TempDir(), "credentials"), "a")
	g := aliceGrant()
	g.Principal = "\xff"
	if err := v.Save(t.Context(), g); err == nil {
		t.Error("saved a principal that is not UTF-8")
	}
	g = aliceGrant()
	g.Issuer = strings.Repeat("x", maxKeyText+1)
	if err := v.Load(t.Context(), g); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("a long issuer: %v", err)
	}
	g = aliceGrant()
	g.AccessToken = mcp.NewToken(strings.Repeat("x", maxFile))
	if err := v.Save(t.Context(), g); err == nil || g.Generation != 0 {
		t.Errorf("saved a large record: %v", err)
	}
	l, err := v.Lock(t.Context(), aliceGrant())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	bob := aliceGrant()
	bob.Principal = "corp:bob"
	if l.Save(t.Context(), bob) == nil || l.Load(t.Context(), bob) == nil || l.Delete(t.Context(), bob) == nil {
		t.Error("the lock of another record was accepted")
	}
	l.Unlock()
	if err := l.Save(t.Context(), aliceGrant()); err == nil {
		t.Error("saved without the lock")
	}
}
