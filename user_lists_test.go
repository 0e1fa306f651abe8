// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/vault"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// desk is a server that lists for each user its own tools, and for no other client, unless all is set.
type desk struct {
	mu      sync.Mutex
	tools   map[string][]string    // by user
	pages   map[string][]string    // the URIs of resources, by user; nil without resources
	all     []string               // for everybody, signed in or not
	refuses map[string]bool        // users that it does not accept
	calls   []string               // "USER NAME"
	listed  []string               // the users that lists were fetched for
	listens map[chan string]string // of users
	meta    map[string]string      // _meta of tools, by name
}

func newDesk() *desk {
	return &desk{tools: make(map[string][]string), refuses: make(map[string]bool), listens: make(map[chan string]string)}
}

// accessPrefix begins the access tokens of users.
const accessPrefix = "access-of-"

// handler returns the endpoint of the server.
func (d *desk) handler(t *testing.T) http.Handler {
	s := server.New(d, server.Config{AllowedHosts: []string{"*"}, Authenticate: func(r *http.Request) (*mcp.Identity, error) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "+accessPrefix)
		d.mu.Lock()
		defer d.mu.Unlock()
		switch {
		case ok && !d.refuses[token]:
			return &mcp.Identity{Principal: token}, nil
		case r.Header.Get("Authorization") == "" && d.all != nil:
			return nil, nil
		}
		return nil, errors.New("no access")
	}})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (d *desk) Serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	switch req.Method {
	case "server/discover":
		capabilities := `{"tools":{"listChanged":true}}`
		if d.pages != nil {
			capabilities = `{"tools":{"listChanged":true},"resources":{}}`
		}
		return mcp.NewResult([]byte(`{"supportedVersions":["2026-07-28"],"capabilities":` + capabilities + `,"instructions":"the desk"}`))
	case "resources/list":
		items := make([]string, 0, len(d.pages[req.Principal]))
		for _, uri := range d.pages[req.Principal] {
			items = append(items, fmt.Sprintf(`{"uri":%q,"name":"n"}`, uri))
		}
		return mcp.NewResult([]byte(`{"resources":[` + strings.Join(items, ",") + `]}`))
	case "resources/templates/list":
		return mcp.NewResult([]byte(`{"resourceTemplates":[]}`))
	case "resources/read":
		uri, _ := req.Params.Text(mcp.FieldURI)
		if !slices.Contains(d.pages[req.Principal], uri) {
			return nil, mcp.Errorf(mcp.CodeResourceNotFound, "no such page")
		}
		return mcp.NewResult(fmt.Appendf(nil, `{"contents":[{"uri":%q,"text":%q}]}`, uri, "of "+req.Principal))
	case "tools/list":
		d.mu.Lock()
		defer d.mu.Unlock()
		tools := d.tools[req.Principal]
		if d.all != nil {
			tools = d.all
		}
		if !strings.Contains(string(req.Client.Capabilities), "elicitation") {
			tools = slices.DeleteFunc(slices.Clone(tools), func(name string) bool { return name == "ask" })
		}
		d.listed = append(d.listed, req.Principal)
		list := strings.Replace(gatewaytest.ToolList(tools...), "{", `{"cacheScope":"public","ttlMs":60000,`, 1)
		for name, meta := range d.meta {
			list = strings.Replace(list, `{"name":"`+name+`",`, `{"name":"`+name+`","_meta":`+meta+`,`, 1)
		}
		return mcp.NewResult([]byte(list))
	case "tools/call":
		name, _ := req.Params.Text(mcp.FieldName)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.calls = append(d.calls, req.Principal+" "+name)
		return mcp.NewResult(fmt.Appendf(nil, `{"resultType":"complete","content":[{"type":"text","text":%q}]}`, name+" by "+req.Principal))
	case "subscriptions/listen":
		return nil, d.listen(ctx, req, caller)
	}
	return nil, mcp.Errorf(mcp.CodeMethodNotFound, "no %s", req.Method)
}

func (d *desk) listen(ctx context.Context, req *mcp.Request, caller mcp.Caller) error {
	changed := make(chan string, 100)
	d.mu.Lock()
	d.listens[changed] = req.Principal
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.listens, changed)
	}()
	ack, err := mcp.NewNotification("notifications/subscriptions/acknowledged", []byte(`{"notifications":{"toolsListChanged":true}}`))
	if err != nil {
		return err
	}
	if err := caller.Notify(ctx, ack); err != nil {
		return err
	}
	for {
		select {
		case method := <-changed:
			if err := caller.Notify(ctx, &mcp.Notification{Method: method}); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// give changes the tools of a user, and notifies those that follow them.
func (d *desk) give(user string, tools ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tools[user] = tools
	for changed, of := range d.listens {
		if of == user {
			changed <- "notifications/tools/list_changed"
		}
	}
}

// refuse makes the server refuse a user, or accept it.
func (d *desk) refuse(user string, is bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuses[user] = is
}

// called returns the calls since the last one.
func (d *desk) called() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls := d.calls
	d.calls = nil
	return calls
}

// followed returns the users that have a listen.
func (d *desk) followed() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var users []string
	for _, user := range d.listens {
		users = append(users, user)
	}
	slices.Sort(users)
	return users
}

// users are a gateway in front of a desk as "crm" and a shelf as "wiki", which lists the tool
// "read" for anybody. It must be used in a bubble.
type users struct {
	*gatewaytest.Gateway

	desk   *desk
	down   *outage
	vault  *vault.Vault
	folder string
	era    string
	cfg    config.Config
	opt    signalbox.Options
}

// outage is a server that may be away.
type outage struct {
	next http.Handler

	mu   sync.Mutex
	away bool
	cuts map[*http.Request]context.CancelFunc
}

// set makes the server go away, with all that it serves, or come back.
func (o *outage) set(away bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.away = away
	for _, cut := range o.cuts {
		cut()
	}
}

func (o *outage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cut := context.WithCancel(r.Context())
	defer cut()
	o.mu.Lock()
	away := o.away
	if o.cuts == nil {
		o.cuts = make(map[*http.Request]context.CancelFunc)
	}
	o.cuts[r] = cut
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.cuts, r)
	}()
	if away {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	o.next.ServeHTTP(w, r.WithContext(ctx))
}

const testVaultKey = "a key of thirty-two characters or more"

func openUsers(t *testing.T, d *desk, era string, change func(*config.Config)) *users {
	t.Helper()
	u := &users{desk: d, down: &outage{next: d.handler(t)}, folder: t.TempDir(), era: era}
	backends := map[string]http.Handler{"crm": u.down, "wiki": gatewaytest.ServerWithTools(true, "read")}
	u.opt = signalbox.Options{
		StateFolder: u.folder, ListsFolder: filepath.Join(u.folder, "lists"),
		Transport:   gatewaytest.ServeBackends(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { backends[r.Host].ServeHTTP(w, r) })),
		SignInPages: func() (string, func(), error) { return "http://127.0.0.1:7777", func() {}, nil },
	}
	u.cfg = config.Config{
		Servers: []config.Backend{
			{Name: "crm", URL: "http://crm/mcp", Era: era, OAuth: &config.OAuth{}},
			{Name: "wiki", URL: "http://wiki/mcp"},
		},
		Credentials: config.Credentials{Keys: []config.Secret{config.NewSecret(testVaultKey)}},
	}
	gatewaytest.WithPrincipals(&u.cfg, "ann", "bob", "eve")
	if change != nil {
		change(&u.cfg)
	}
	opened, err := vault.Open(t.Context(), vault.Options{Folder: filepath.Join(u.folder, "credentials"), Keys: [][]byte{[]byte(testVaultKey)}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	u.vault = opened.Vault
	u.Gateway = gatewaytest.Open(t, u.cfg, u.opt)
	return u
}

func grantKey(user string) vault.GrantKey {
	return vault.GrantKey{Principal: user, Backend: "crm", Issuer: "https://as.example", Resource: "http://crm/mcp", Client: "c"}
}

// signIn signs a user in with another process.
func (u *users) signIn(user string) { u.signInAs(user, user) }

// signInAs signs a user in with an account of the server.
func (u *users) signInAs(user, account string) {
	u.T.Helper()
	g := &vault.Grant{GrantKey: grantKey(user)}
	if err := u.vault.Load(u.T.Context(), g); err != nil && !errors.Is(err, vault.ErrNotFound) {
		u.T.Fatal(err)
	}
	now := time.Now()
	g.URL, g.AccessToken, g.TokenType = "http://crm/mcp", mcp.NewToken(accessPrefix+account), "Bearer"
	g.Expires, g.SignedIn = now.Add(1000*time.Hour), now
	if err := u.vault.Save(u.T.Context(), g); err != nil {
		u.T.Fatal(err)
	}
}

// signOut signs a user out with another process.
func (u *users) signOut(user string) {
	u.T.Helper()
	grants, err := u.vault.Grants(u.T.Context(), user, "crm")
	if err != nil {
		u.T.Fatal(err)
	}
	for _, g := range grants {
		if err := u.vault.Delete(u.T.Context(), g); err != nil {
			u.T.Fatal(err)
		}
	}
}

// tools returns the names of the tools that a modern client of a user gets.
func (u *users) tools(user string) string {
	u.T.Helper()
	return listedNames(u.PostModern("1", "tools/list", "", "", gatewaytest.WithToken(user)).Body)
}

// listedNames returns the names of the items in a list.
func listedNames(list string) string {
	var names []string
	for _, part := range strings.Split(list, `"name":"`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

// call returns what a modern client of a user gets for a call.
func (u *users) call(user, name string) string {
	u.T.Helper()
	return u.PostModern("1", "tools/call", name, "", gatewaytest.WithToken(user)).Body
}

// eras are those of the server.
var eras = []string{"modern", "legacy"}

// Each user has its own lists of a server that lists only for users that are signed in, and none
// of another one. A tool of another user is unknown, byte for byte. A user without access has the
// tool to sign in.
func TestListsOfUsers(t *testing.T) {
	for _, era := range eras {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk()
			d.give("ann", "find", "pay")
			d.give("bob", "find", "ship")
			u := openUsers(t, d, era, nil)
			u.signIn("ann")
			u.signIn("bob")
			for user, want := range map[string]string{"ann": "crm__find crm__pay wiki__read", "bob": "crm__find crm__ship wiki__read", "eve": "crm__sign_in wiki__read"} {
				gatewaytest.WantEqual(t, era+": tools of "+user, u.tools(user), want)
			}
			if res := u.call("ann", "crm__pay"); !strings.Contains(res, "pay by ann") {
				t.Errorf("%s: ann gets %s", era, res)
			}
			gatewaytest.WantEqual(t, era+": unknown", strings.ReplaceAll(withoutCall(u.call("bob", "crm__pay")), "crm__pay", "NAME"),
				strings.ReplaceAll(withoutCall(u.call("bob", "crm__nothing")), "crm__nothing", "NAME"))
			if got := d.called(); !slices.Equal(got, []string{"ann pay"}) {
				t.Errorf("%s: the server was called for %q", era, got)
			}
			if s := u.G.Status().Backends[0]; s.State != "live" || s.Users == nil || s.Users.Users != 2 || s.Users.Lists != 2 {
				t.Errorf("%s: status %+v with users %+v", era, s, s.Users)
			}
		})
	}
}

// Clients of one user that declare other capabilities have the lists for those.
func TestListsOfUserByCapabilities(t *testing.T) {
	for _, era := range eras {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk()
			d.give("ann", "find", "ask")
			u := openUsers(t, d, era, nil)
			u.signIn("ann")
			sess := u.Legacy(gatewaytest.WithToken("ann"))
			for range 2 {
				gatewaytest.WantEqual(t, era+": with elicitation", listedNames(u.Post(gatewaytest.LegacyRequest("2", "tools/list", ""), sess).Body), "crm__find crm__ask wiki__read")
				gatewaytest.WantEqual(t, era+": without", u.tools("ann"), "crm__find wiki__read")
			}
			if s := u.G.Status().Backends[0]; s.Users == nil || s.Users.Users != 1 || s.Users.Lists != 2 {
				t.Errorf("%s: users %+v", era, s.Users)
			}
		})
	}
}

// A server that lists for anybody has shared lists, also without "lists: shared".
func TestListsOfAnybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.all = []string{"find"}
		u := openUsers(t, d, "modern", nil)
		u.signIn("ann")
		for _, user := range []string{"ann", "eve"} {
			gatewaytest.WantEqual(t, "tools of "+user, u.tools(user), "crm__find wiki__read")
		}
		if got := d.followed(); !slices.Equal(got, []string{""}) {
			t.Errorf("listens of %q", got)
		}
		if s := u.G.Status().Backends[0]; s.State != "live" || s.Users != nil {
			t.Errorf("status %+v", s)
		}
	})
}

// The operator reads for how many users a name is listed, and no user is named.
func TestExplainListsOfUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.give("ann", "find", "pay")
		d.give("bob", "find", "old")
		u := openUsers(t, d, "modern", func(cfg *config.Config) {
			cfg.Servers[0].Rename = map[string]string{"pay": "pay_now"}
			cfg.Servers[0].Exclude = []string{"old"}
		})
		u.signIn("ann")
		u.signIn("bob")
		gatewaytest.WantEqual(t, "tools of ann", u.tools("ann"), "crm__find pay_now wiki__read")
		gatewaytest.WantEqual(t, "tools of bob", u.tools("bob"), "crm__find wiki__read")
		for name, want := range map[string]string{
			"crm__find": `listed; for 2 of its 2 users that are signed in and use the gateway; prefix "crm__"; true`,
			"pay_now":   `listed; for 1 of its 2 users that are signed in and use the gateway; renamed "pay_now"; true`,
			"crm__old":  `listed; for 1 of its 2 users that are signed in and use the gateway; exclude "old"; false`,
		} {
			x := u.G.Explain(name, "")
			var steps []string
			for _, item := range x.Items {
				for _, step := range item.Chain {
					steps = append(steps, step.Text)
				}
			}
			gatewaytest.WantEqual(t, name, strings.Join(append(steps, fmt.Sprint(x.Offered)), "; "), want)
		}
		x := u.G.Explain("crm__nothing", "")
		if got := strings.Join(x.Unlisted, "\n"); x.Offered || len(x.Items)+len(x.Unreached) > 0 || got != "server crm lists for each user that is signed in, and this name for none of the 2 that use the gateway" {
			t.Errorf("explanation %+v", x)
		}
		if x := u.G.Explain("crm", ""); x.Server == nil || x.Server.State != "live" {
			t.Errorf("explanation %+v", x)
		}
	})
}

// A policy and profiles apply to the lists of each user.
func TestPolicyOfListsOfUsers(t *testing.T) {
	for _, era := range eras {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk()
			d.give("ann", "find", "pay", "admin")
			d.give("bob", "find", "pay", "admin")
			u := openUsers(t, d, era, func(cfg *config.Config) {
				cfg.Policy = config.Policy{Otherwise: config.PolicyAllow, Rules: []config.PolicyRule{
					{Name: "no-admin", Deny: `principal.name != "ann"`, On: []string{"*__admin"}},
				}}
				cfg.Profiles = []config.Profile{{Name: "money", Servers: []string{"crm"}, Include: []string{"*__pay", "*__admin"}}}
			})
			u.signIn("ann")
			u.signIn("bob")
			for _, w := range []struct{ user, profile, want string }{
				{"ann", "", "crm__find crm__pay crm__admin wiki__read"},
				{"bob", "", "crm__find crm__pay wiki__read"},
				{"eve", "", "crm__sign_in wiki__read"},
				{"ann", "money", "crm__pay crm__admin"},
				{"bob", "money", "crm__pay"},
			} {
				list := u.At(w.profile).PostModern("1", "tools/list", "", "", gatewaytest.WithToken(w.user)).Body
				gatewaytest.WantEqual(t, era+": tools of "+w.user+" at "+w.profile, listedNames(list), w.want)
				if !strings.Contains(list, `"cacheScope":"private"`) {
					t.Errorf("%s: a list of one user is public: %s", era, list)
				}
			}
			if res := u.call("bob", "crm__admin"); !strings.Contains(res, "unknown tool") {
				t.Errorf("%s: bob gets %s", era, res)
			}
			if res := u.call("ann", "crm__admin"); !strings.Contains(res, "admin by ann") {
				t.Errorf("%s: ann gets %s", era, res)
			}
		})
	}
}

// A reload that changes the rules of a server, or what its lists are, counts for the lists of users.
func TestReloadOfListsOfUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.give("ann", "find", "pay")
		u := openUsers(t, d, "modern", nil)
		u.signIn("ann")
		gatewaytest.WantEqual(t, "tools of ann", u.tools("ann"), "crm__find crm__pay wiki__read")
		fetched := len(d.requests("ann"))
		reload := func(change func(*config.Config)) {
			t.Helper()
			next := u.cfg
			next.Servers = slices.Clone(u.cfg.Servers)
			change(&next)
			if err := u.G.Reload(t.Context(), next); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		reload(func(cfg *config.Config) { cfg.Servers[0].Include = []string{"p*"} })
		gatewaytest.WantEqual(t, "tools of ann with include", u.tools("ann"), "crm__pay wiki__read")
		gatewaytest.WantEqual(t, "tools of eve with include", u.tools("eve"), "crm__sign_in wiki__read")
		if n := len(d.requests("ann")) - fetched; n > 1 { // after the acknowledgement of the listen
			t.Errorf("the lists were fetched %d times", n)
		}
		reload(func(cfg *config.Config) { cfg.Servers = cfg.Servers[1:] })
		gatewaytest.WantEqual(t, "tools of ann without the server", u.tools("ann"), "wiki__read")
		time.Sleep(time.Minute)
		if got := d.followed(); len(got) != 0 {
			t.Errorf("listens of %q", got)
		}
		reload(func(*config.Config) {})
		gatewaytest.WantEqual(t, "tools of ann at the end", u.tools("ann"), "crm__find crm__pay wiki__read")
		reload(func(cfg *config.Config) {
			own := *cfg.Servers[0].OAuth
			own.Lists = config.ListsShared
			cfg.Servers[0].OAuth = &own
		})
		u.call("ann", "crm__sign_in")
		gatewaytest.WantEqual(t, "shared tools of eve", u.tools("eve"), "crm__find crm__pay wiki__read")
	})
}

// find_tool may be the first request of a user: it finds the tools that are listed for that user.
func TestFindToolInListsOfUser(t *testing.T) {
	for _, era := range eras {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk()
			d.give("ann", "find")
			u := openUsers(t, d, era, nil)
			u.signIn("ann")
			time.Sleep(time.Minute) // the gateway knows that the server lists for users only
			found := u.At(config.SearchProfile).PostModern("1", "tools/call", "find_tool", `"arguments":{"query":"find","detail":"name"}`, gatewaytest.WithToken("ann")).Body
			if !strings.Contains(found, `{"name":"crm__find","server":"crm"}`) {
				t.Errorf("%s: found %s", era, found)
			}
		})
	}
}

// The tool to sign in answers a request without a description of its client, too.
func TestSignInToolWithoutAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk()
		d.give("ann", "find")
		u := openUsers(t, d, "modern", nil)
		u.signIn("ann")
		gatewaytest.WantEqual(t, "tools of ann", u.tools("ann"), "crm__find wiki__read")
		req := requestOf(t, &mcp.Identity{Principal: "ann"}, "tools/call", `{"name":"crm__sign_in"}`)
		req.Client = nil
		if got := answerTo(t, u.G, req); !strings.Contains(got, "You are signed in to crm.") {
			t.Errorf("got %s", got)
		}
	})
}
