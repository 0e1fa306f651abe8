// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"bytes"
	"encoding/base64"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// listener is a client of a user that is notified of changes.
type listener struct {
	*gatewaytest.EventStream

	u    *users
	sess gatewaytest.Header // nil for a modern client
	user string
}

// listen opens the stream of a client, which has got its tools.
func (u *users) listen(era, user string) *listener {
	u.T.Helper()
	l := &listener{u: u, user: user}
	if era == "legacy" {
		l.sess = u.Legacy(gatewaytest.WithToken(user))
		l.list()
		l.EventStream = u.Listen(l.sess)
		synctest.Wait()
		return l
	}
	l.list() // what the listen begins with
	body, hs := gatewaytest.ModernRequest("9", "subscriptions/listen", "", `"notifications":{"toolsListChanged":true}`)
	l.EventStream = u.Stream(u.Request(u.T.Context(), http.MethodPost, body, hs, gatewaytest.WithToken(user)))
	if ack := l.Next(); !strings.Contains(ack, "acknowledged") {
		u.T.Fatalf("acknowledgement %s", ack)
	}
	return l
}

// list returns the tools of the client.
func (l *listener) list() string {
	l.u.T.Helper()
	if l.sess == nil {
		return l.u.tools(l.user)
	}
	return listedNames(l.u.Post(gatewaytest.LegacyRequest("2", "tools/list", ""), l.sess).Body)
}

// wantChange checks that the client is notified, within a time, and what it gets then.
func (l *listener) wantChange(within time.Duration, want string) {
	l.u.T.Helper()
	began := time.Now()
	for got := ""; got != want; {
		if n := l.Next(); !strings.Contains(n, gatewaytest.ToolsChanged) {
			l.u.T.Fatalf("%s: notification %s", l.user, n)
		}
		got = l.list()
		if took := time.Since(began); took > within {
			l.u.T.Fatalf("%s: %q after %v, want %q within %v", l.user, got, took, want, within)
		}
	}
}

// The tool to sign in goes away with list_changed when a user has signed in, also with another
// process, and comes back when it signs out. Changes of its lists are notified to it only. A sign-in
// with another account has its lists.
func TestListsOfUserChange(t *testing.T) {
	for _, server := range eras {
		for _, client := range eras {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk()
				d.give("ann", "find")
				d.give("bob", "find")
				u := openUsers(t, d, server, nil)
				u.signIn("bob")
				ann, bob := u.listen(client, "ann"), u.listen(client, "bob")
				if got := ann.list(); got != "crm__sign_in wiki__read" {
					t.Errorf("ann: %s", got)
				}
				u.signIn("ann")
				ann.wantChange(6*time.Second, "crm__find wiki__read")
				time.Sleep(time.Minute)
				d.give("ann", "find", "pay")
				ann.wantChange(2*time.Second, "crm__find crm__pay wiki__read")
				u.signInAs("ann", "ann2")
				d.give("ann2", "find2")
				ann.wantChange(6*time.Second, "crm__find2 wiki__read")
				u.signOut("ann")
				ann.wantChange(6*time.Second, "crm__sign_in wiki__read")
				time.Sleep(time.Minute)
				if got := d.followed(); !slices.Equal(got, []string{"bob"}) {
					t.Errorf("listens of %q", got)
				}
				bob.WantSilence(time.Minute)
				if got := bob.list(); got != "crm__find wiki__read" {
					t.Errorf("bob: %s", got)
				}
				ann.WantSilence(time.Minute)
			})
		}
	}
}

// A user that signs in or out with a command has other lists at once, with list_changed, when the
// command has notified the gateway.
func TestListsOfUserChangeAtOnce(t *testing.T) {
	for _, server := range eras {
		for _, client := range eras {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk()
				d.give("ann", "find")
				d.give("ann2", "find2")
				u := openUsers(t, d, server, nil)
				ann, bob := u.listen(client, "ann"), u.listen(client, "bob")
				for _, account := range []string{"ann", "ann2"} {
					time.Sleep(time.Second) // between two looks
					u.signInAs("ann", account)
					u.G.RereadAccess(t.Context())
					ann.wantChange(100*time.Millisecond, "crm__find"+strings.TrimPrefix(account, "ann")+" wiki__read")
				}
				u.signOut("ann")
				u.G.RereadAccess(t.Context())
				ann.wantChange(100*time.Millisecond, "crm__sign_in wiki__read")
				bob.WantSilence(time.Minute)
			})
		}
	}
}

// The lists of a user are followed while it has a session or a listen, and for ten minutes after
// that and after each request.
func TestListsOfUserAreForgotten(t *testing.T) {
	for _, server := range eras {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk()
			for _, user := range []string{"ann", "bob", "eve"} {
				d.give(user, "find")
			}
			u := openUsers(t, d, server, nil)
			for _, user := range []string{"ann", "bob", "eve"} {
				u.signIn(user)
			}
			want := func(users ...string) {
				t.Helper()
				synctest.Wait()
				if got := d.followed(); !slices.Equal(got, users) {
					t.Errorf("%s: listens of %q, want %q", server, got, users)
				}
			}
			want()
			u.tools("ann")
			sess := u.Legacy(gatewaytest.WithToken("bob"))
			u.Post(gatewaytest.LegacyRequest("2", "tools/list", ""), sess)
			eve := u.listen("modern", "eve")
			time.Sleep(9*time.Minute + 50*time.Second)
			want("ann", "bob", "eve")
			time.Sleep(15 * time.Second)
			want("bob", "eve")
			u.tools("ann")
			want("ann", "bob", "eve")
			if r := u.Do(u.Request(t.Context(), http.MethodDelete, "", sess)); r.Status/100 != 2 {
				t.Fatalf("status %d", r.Status)
			}
			eve.WantSilence(9 * time.Minute)
			want("ann", "bob", "eve")
			u.call("ann", "wiki__read")
			time.Sleep(75 * time.Second)
			want("ann", "eve")
			time.Sleep(9 * time.Minute)
			want()
			if s := u.G.Status().Backends[0]; s.Users == nil || s.Users.Users != 0 {
				t.Errorf("users %+v", s.Users)
			}
			gatewaytest.WantEqual(t, "tools of ann", u.tools("ann"), "crm__find wiki__read")
		})
	}
}

// While the server is away its users keep their lists, each its own, and the tool to sign in stays
// for those without.
func TestListsOfUserInOutage(t *testing.T) {
	for _, server := range eras {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk()
			d.give("ann", "find")
			u := openUsers(t, d, server, nil)
			u.signIn("ann")
			ann := u.listen("modern", "ann")
			u.down.set(true)
			u.HTTP.CloseIdleConnections()
			u.RetryCRM()
			time.Sleep(time.Minute)
			for user, want := range map[string]string{"ann": "crm__find wiki__read", "eve": "crm__sign_in wiki__read"} {
				gatewaytest.WantEqual(t, server+": tools of "+user, u.tools(user), want)
			}
			if s := u.G.Status().Backends[0]; s.State != "stale" || s.Users == nil || s.Users.Stale != 1 {
				t.Errorf("%s: status %+v with users %+v", server, s, s.Users)
			}
			// A user that signs in now has no lists, and no tool to sign in.
			u.signIn("bob")
			d.give("bob", "ship")
			gatewaytest.WantEqual(t, server+": tools of bob", u.tools("bob"), "wiki__read")
			if res := u.call("bob", "crm__ship"); !strings.Contains(res, "it has not been reached yet") {
				t.Errorf("%s: bob gets %s", server, res)
			}
			d.give("ann", "find", "pay")
			u.down.set(false)
			ann.wantChange(time.Minute, "crm__find crm__pay wiki__read")
			time.Sleep(time.Minute)
			gatewaytest.WantEqual(t, server+": tools of bob", u.tools("bob"), "crm__ship wiki__read")
			if s := u.G.Status().Backends[0]; s.State != "live" || s.Users.Stale+s.Users.Down != 0 {
				t.Errorf("%s: status %+v with users %+v", server, s, s.Users)
			}
			ann.WantSilence(time.Minute)
		})
	}
}

// RetryCRM makes the gateway reach the server now.
func (u *users) RetryCRM() {
	u.T.Helper()
	if _, err := u.G.RetryBackend(u.T.Context(), "crm"); err != nil {
		u.T.Fatal(err)
	}
}

// A server that does not accept the access of a user any more has no lists for it, and no others.
func TestListsOfRefusedUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.give("ann", "find")
		d.give("bob", "find")
		u := openUsers(t, d, "modern", nil)
		u.signIn("ann")
		u.signIn("bob")
		ann := u.listen("modern", "ann")
		d.refuse("ann", true)
		u.call("ann", "crm__find")
		ann.wantChange(10*time.Second, "crm__sign_in wiki__read")
		gatewaytest.WantEqual(t, "tools of bob", u.tools("bob"), "crm__find wiki__read")
		time.Sleep(time.Hour)
		before := len(d.requests("ann"))
		time.Sleep(time.Hour)
		if n := len(d.requests("ann")) - before; n > 200 {
			t.Errorf("%d requests of a refused user in an hour", n)
		}
		d.refuse("ann", false)
		u.signInAs("ann", "ann")
		ann.wantChange(2*time.Minute, "crm__find wiki__read")
		ann.WantSilence(time.Minute)
	})
}

// requests returns the lists that were fetched for a user.
func (d *desk) requests(user string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.listed), func(of string) bool { return of != user })
}

// A new access token of the same sign-in leaves the lists as they are.
func TestListsOfUserAfterRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.give("ann", "find")
		u := openUsers(t, d, "modern", nil)
		u.signIn("ann")
		ann := u.listen("modern", "ann")
		time.Sleep(time.Minute)
		g, err := u.vault.Grants(t.Context(), "ann", "crm")
		if err != nil || len(g) != 1 {
			t.Fatal(g, err)
		}
		g[0].AccessToken, g[0].Refreshed = mcp.NewToken(accessPrefix+"ann-renewed"), time.Now()
		if err := u.vault.Save(t.Context(), g[0]); err != nil {
			t.Fatal(err)
		}
		ann.WantSilence(time.Hour)
		gatewaytest.WantEqual(t, "tools of ann", u.tools("ann"), "crm__find wiki__read")
		if got := d.followed(); !slices.Equal(got, []string{"ann"}) {
			t.Errorf("listens of %q", got)
		}
	})
}

// After a restart users have their lists with their first request. Lists of users are not kept in
// files, and those that a single user, or all of them, had are not offered to others.
func TestListsOfUsersAfterRestart(t *testing.T) {
	for _, server := range eras {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk()
			d.give("ann", "secret_of_ann")
			u := openUsers(t, d, server, func(cfg *config.Config) { cfg.Servers[0].OAuth.Lists = config.ListsShared })
			u.signIn("ann")
			u.tools("ann")
			u.call("ann", "crm__sign_in")
			time.Sleep(time.Minute)
			gatewaytest.WantEqual(t, server+": tools of eve", u.tools("eve"), "crm__secret_of_ann wiki__read")
			if !u.keeps("secret_of_ann") {
				t.Errorf("%s: shared lists are not kept", server)
			}
			if err := u.G.Close(); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(filepath.Join(u.folder, "lists")); err != nil {
				t.Fatal(err)
			}
			u.cfg.Servers[0].OAuth = &config.OAuth{}
			u.Gateway = gatewaytest.Open(t, u.cfg, u.opt)
			if res := u.call("ann", "crm__secret_of_ann"); !strings.Contains(res, "secret_of_ann by ann") {
				t.Errorf("%s: ann gets %s", server, res)
			}
			gatewaytest.WantEqual(t, server+": tools of eve", u.tools("eve"), "crm__sign_in wiki__read")
			time.Sleep(time.Minute)
			if u.keeps("secret_of_ann") {
				t.Errorf("%s: lists of users are kept", server)
			}
		})
	}
}

// Lists that were kept while all users had the same are not offered when they have their own.
func TestKeptListsAreNotOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.give("ann", "secret_of_ann")
		u := openUsers(t, d, "modern", func(cfg *config.Config) { cfg.Servers[0].OAuth.Lists = config.ListsShared })
		u.signIn("ann")
		u.call("ann", "crm__sign_in")
		time.Sleep(time.Minute)
		if !u.keeps("secret_of_ann") {
			t.Fatal("shared lists are not kept")
		}
		if err := u.G.Close(); err != nil {
			t.Fatal(err)
		}
		u.down.set(true)
		u.cfg.Servers[0].OAuth = &config.OAuth{}
		u.Gateway = gatewaytest.Open(t, u.cfg, u.opt)
		gatewaytest.WantEqual(t, "tools of eve", u.tools("eve"), "wiki__read")
	})
}

// keeps reports whether a text is in the files of lists.
func (u *users) keeps(text string) (is bool) {
	u.T.Helper()
	err := filepath.WalkDir(filepath.Join(u.folder, "lists"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		is = is || bytes.Contains(raw, []byte(text)) || bytes.Contains(raw, []byte(base64Of(text)))
		return err
	})
	if err != nil {
		u.T.Fatal(err)
	}
	return is
}

// base64Of returns a part of the encoding of a text whose place in its bytes is a multiple of 3.
func base64Of(text string) string {
	return base64.StdEncoding.EncodeToString([]byte(text))[:8]
}
