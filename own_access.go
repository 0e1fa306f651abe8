// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/internal/signin"
	"github.com/signalbox-mcp/signalbox/internal/vault"
	"github.com/signalbox-mcp/signalbox/server"
)

// ownAccessPath is where callers manage their own access to backends, with the credential with
// which they use the endpoint:
//
//   - GET /oauth/credentials lists the access of the caller;
//   - POST /oauth/credentials/NAME begins a sign-in at a backend;
//   - GET /oauth/credentials/NAME?signin=ID waits for it;
//   - DELETE /oauth/credentials/NAME revokes and deletes the access.
//
// With profile=NAME in the query they are those of a profile.
const ownAccessPath = "/oauth/credentials"

// ownAccessWait bounds how long a request waits for a sign-in. It is shorter than the time after
// which proxies end a request.
const ownAccessWait = 20 * time.Second

func isOwnAccess(path string) bool {
	return path == ownAccessPath || strings.HasPrefix(path, ownAccessPath+"/")
}

// serveOwnAccess serves the requests at ownAccessPath.
func (g *Gateway) serveOwnAccess(w http.ResponseWriter, r *http.Request) {
	if profile := r.URL.Query().Get("profile"); profile != "" {
		r = r.WithContext(WithProfile(r.Context(), profile))
	}
	g.server.Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// No page does this, and a credential that a browser adds by itself is not the user's word.
		if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
			writeText(w, http.StatusForbidden, "this is not for browsers")
			return
		}
		name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, ownAccessPath), "/")
		caller := ownAccess{g: g, of: viewer{identity: server.IdentityOf(r.Context()), profile: server.ProfileOf(r.Context())}}
		if caller.of.identity != nil {
			caller.of.Principal = caller.of.identity.Principal
		}
		switch {
		case name == "" && r.Method == http.MethodGet:
			caller.list(w, r)
		case name == "":
			w.Header().Set("Allow", http.MethodGet)
			writeText(w, http.StatusMethodNotAllowed, "method not allowed, use GET")
		default:
			caller.serve(w, r, name)
		}
	})).ServeHTTP(w, r)
}

// ownAccess is the access of one caller.
type ownAccess struct {
	g  *Gateway
	of viewer
}

// users returns the backends that are called as the caller, by their names.
func (o ownAccess) users() map[string]*userCredentials {
	v := o.g.viewFor(o.of)
	all := make(map[string]*userCredentials)
	for _, b := range v.backends {
		users, ok := b.access.(*userCredentials)
		if ok && (v.class == nil || v.class.backends[b.Name()]) {
			all[b.Name()] = users
		}
	}
	return all
}

// grantInList is what is listed of a grant.
type grantInList struct {
	Backend   string    `json:"backend"`
	Principal string    `json:"principal"` // "" also for the only user without auth
	Issuer    string    `json:"issuer"`
	Scopes    []string  `json:"scopes"`
	Until     time.Time `json:"until,omitzero"` // the end of the token
	Renewed   bool      `json:"renewed"`        // then it is renewed
	SignedIn  time.Time `json:"signedIn,omitzero"`
}

// grants returns the grants of the caller at a backend, the latest first.
func (o ownAccess) grants(ctx context.Context, users *userCredentials) ([]grantInList, error) {
	list := []grantInList{}
	if users.isUnasked() {
		return list, nil
	}
	kept, err := o.g.openVault()
	if err != nil {
		return nil, err
	}
	grants, err := kept.Grants(ctx, o.of.Principal, users.srv.Name)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(grants, func(a, b *vault.Grant) int { return b.SignedIn.Compare(a.SignedIn) })
	for _, one := range grants {
		list = append(list, grantInList{
			Backend: one.Backend, Principal: one.Principal, Issuer: one.Issuer, Scopes: append([]string{}, one.Scopes...),
			Until: one.Expires, Renewed: !one.RefreshToken.IsZero(), SignedIn: one.SignedIn,
		})
	}
	return list, nil
}

// list lists the access of the caller.
func (o ownAccess) list(w http.ResponseWriter, r *http.Request) {
	list := []grantInList{}
	all := o.users()
	for _, srv := range o.g.view.Load().cfg.Servers { // in the order of the file
		users, ok := all[srv.Name]
		if !ok {
			continue
		}
		own, err := o.grants(r.Context(), users)
		if err != nil {
			o.fail(w, r, srv.Name, err)
			return
		}
		list = append(list, own...)
	}
	writeJSON(w, map[string]any{"credentials": list})
}

// serve serves a request about one backend.
func (o ownAccess) serve(w http.ResponseWriter, r *http.Request, name string) {
	users, ok := o.users()[name]
	if !ok {
		writeText(w, http.StatusNotFound, fmt.Sprintf("the gateway has no server %q that you sign in to", name))
		return
	}
	if users.isUnasked() {
		writeText(w, http.StatusConflict, name+" has not asked for a sign-in")
		return
	}
	source, err := users.grants()
	if err != nil {
		o.fail(w, r, name, err)
		return
	}
	switch r.Method {
	case http.MethodPost:
		o.signIn(w, r, users, source)
	case http.MethodGet:
		o.await(w, r, users, source)
	case http.MethodDelete:
		o.signOut(w, r, name, source)
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		writeText(w, http.StatusMethodNotAllowed, "method not allowed, use GET, POST or DELETE")
	}
}

// signInState is the answer about a sign-in.
type signInState struct {
	State      string       `json:"state"` // open, refused, done or ended
	ID         string       `json:"signin,omitempty"`
	URL        string       `json:"url,omitempty"` // for the browser of the caller
	Refusals   int          `json:"refusals,omitzero"`
	Credential *grantInList `json:"credential,omitempty"` // if it is done
}

// signIn begins a sign-in.
func (o ownAccess) signIn(w http.ResponseWriter, r *http.Request, users *userCredentials, source *grant.Source) {
	missing, isMissing := errors.AsType[*grant.Missing](source.Check(r.Context(), o.of.Principal))
	if !isMissing {
		o.done(w, r, users)
		return
	}
	begun, err := o.g.signIns.desk.Begin(r.Context(), missing, source)
	switch {
	case errors.Is(err, signin.ErrFull):
		w.Header().Set("Retry-After", "60")
		writeText(w, http.StatusTooManyRequests, "too many sign-ins have begun; try again later")
	case err != nil:
		o.fail(w, r, users.srv.Name, err)
	default:
		writeJSON(w, signInState{State: string(signin.StateOpen), ID: begun.ID, URL: begun.URL, Refusals: begun.Refusals})
	}
}

// await waits for a sign-in.
func (o ownAccess) await(w http.ResponseWriter, r *http.Request, users *userCredentials, source *grant.Source) {
	q := r.URL.Query()
	refusals, err := strconv.Atoi(q.Get("refusals"))
	if err != nil {
		refusals = 0
	}
	state := o.g.signIns.desk.Await(r.Context(), q.Get("signin"), o.of.Principal, users.srv.Name, refusals, ownAccessWait)
	if state == signin.StateEnded && source.Check(r.Context(), o.of.Principal) == nil {
		o.done(w, r, users)
		return
	}
	writeJSON(w, signInState{State: string(state)})
}

// done answers that the caller is signed in.
func (o ownAccess) done(w http.ResponseWriter, r *http.Request, users *userCredentials) {
	own, err := o.grants(r.Context(), users)
	if err != nil {
		o.fail(w, r, users.srv.Name, err)
		return
	}
	s := signInState{State: "done"}
	if len(own) > 0 { // else it could not be saved, and is used all the same
		s.Credential = &own[0]
	}
	writeJSON(w, s)
}

// signedOut is the answer to a sign-out.
type signedOut struct {
	Deleted int    `json:"deleted"`
	Issuer  string `json:"issuer,omitempty"`

	// NoRevocation is whether the authorization server has no way to revoke access, and
	// Failure why it was not revoked, or not deleted.
	NoRevocation bool   `json:"noRevocation,omitzero"`
	Failure      string `json:"failure,omitempty"`
}

// signOut revokes and deletes the access.
func (o ownAccess) signOut(w http.ResponseWriter, r *http.Request, name string, source *grant.Source) {
	before, err := o.grants(r.Context(), o.users()[name])
	if err != nil {
		o.fail(w, r, name, err)
		return
	}
	n, err := source.SignOut(context.WithoutCancel(r.Context()), o.of.Principal)
	if b, ok := o.g.view.Load().backend(name); ok && b.users != nil {
		o.g.userLists.recheck(o.g.ctx, o.of.Principal, b) //nolint:contextcheck // what it begins outlives the request
	}
	out := signedOut{Deleted: n}
	if len(before) > 0 {
		out.Issuer = before[0].Issuer
	}
	var failures []string
	for _, problem := range parts(err) {
		if oauth.IsNoRevocation(problem) {
			out.NoRevocation = true
		} else {
			failures = append(failures, problem.Error())
		}
	}
	out.Failure = strings.Join(failures, "; ")
	writeJSON(w, out)
}

// parts returns the errors that are joined in err.
func parts(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// fail answers with an error of the gateway's own, which is for its operator.
func (o ownAccess) fail(w http.ResponseWriter, r *http.Request, name string, err error) {
	if r.Context().Err() == nil {
		o.g.log.WarnContext(r.Context(), "the access of a user cannot be managed", slog.String("backend", name), slog.Any("error", err))
	}
	writeText(w, http.StatusServiceUnavailable, "the gateway cannot do that now; its log has the reason")
}

// writeJSON answers with a value.
func writeJSON(w http.ResponseWriter, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		writeText(w, http.StatusInternalServerError, "cannot encode the response")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(append(raw, '\n')) // the client has disconnected
}

// isUnasked reports whether a backend without oauth in its configuration has not asked for a
// token yet.
func (c *userCredentials) isUnasked() bool { return c.isOptional && !c.asked.Load() }
