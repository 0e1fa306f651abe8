// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/internal/vault"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// SourceConfig is the configuration of a Source.
type SourceConfig struct {
	Backend string // the configured name of the backend, a part of the key of grants
	URL     string // of the backend

	// OAuth finds authorization servers and requests tokens.
	OAuth *oauth.Client

	// Vault keeps grants, registrations, and the issuer that Client belongs to. Other processes
	// may use it at the same time.
	Vault *vault.Vault

	// Issuer is the pinned authorization server, or "".
	Issuer string

	// FixedEndpoints is that of the configuration of OAuth.
	FixedEndpoints bool

	// Client is the configured client, or zero. If its Issuer is "", it belongs to the first
	// authorization server that it is used with, and is not presented to any other.
	Client oauth.Registration

	// RedirectURI is the one on the machine of a user that Client is registered with, or "".
	RedirectURI string

	// MetadataURL is the client id with a metadata document that the gateway serves, or "".
	MetadataURL string

	Scopes     []string          // of a first sign-in; nil is those that the backend names
	Resource   string            // to request (RFC 8707): "" is what the backend publishes; see NoResource
	Parameters map[string]string // more parameters of authorization and token requests

	// Anonymous is whether the principal "" is a person, as at an endpoint without
	// authentication. Otherwise requests of "" are the gateway's own, and are sent without a
	// credential.
	Anonymous bool

	// Optional is whether requests without a grant are sent without a credential until the
	// backend has refused one: for a backend that may not require any.
	Optional bool

	// Logger may be nil.
	Logger *slog.Logger

	// Event, if not nil, is called for each Event. It must not block.
	Event func(context.Context, Event)

	// Tried, if not nil, is called after each renewal that was tried, with its error. It must not block.
	Tried func(error)
}

// Event is something that happened to a grant, for the audit log.
type Event struct {
	Kind      EventKind
	Backend   string
	Principal string
	Issuer    string // of the grant; for IssuerChanged, the new one
	Detail    string // for IssuerChanged, the issuer before; for GrantEnded, the reason
}

// EventKind is a kind of Event.
type EventKind string

// The kinds of events.
const (
	GrantEnded    EventKind = "grant_ended"    // the authorization server does not renew a grant, or its principal has signed out
	StepUp        EventKind = "step_up"        // a principal is asked to sign in for more scopes
	IssuerChanged EventKind = "issuer_changed" // the backend names another authorization server
)

// Limits of a Source.
const (
	maxHolders         = 10_000           // principals with a grant in memory
	lookInterval       = time.Second      // between two reads of a grant in use, for changes by other processes
	waitBelow          = 5 * time.Second  // a token that ends sooner is renewed before it is used
	minMargin          = 30 * time.Second // the life that is left when a token is renewed: a tenth,
	maxMargin          = 5 * time.Minute  // within these bounds
	refusedFor         = time.Minute      // a new token that the backend refuses is not sent again for this long
	rediscoverInterval = 30 * time.Second // between two discoveries because of refusals
	maxStepItems       = 64               // items of a principal with step-ups
	maxClientAnew      = 10 * time.Minute // between two registrations of a client that the server does not know
)

// Source is the client.Credentials of one backend with the grants of the senders of requests:
// each principal has one of its own, from a sign-in. Grants are in a vault.Vault, and are renewed
// when a tenth of the life of the access token is left, once for all requests and processes.
//
// A request without a grant ends with a *Missing. The caller signs the principal in with Prepare
// and Complete, and may then send the request again.
//
// A Source is safe for concurrent use. The caller must close it.
type Source struct {
	cfg    SourceConfig
	origin string
	ctx    context.Context //nolint:containedctx // of renewals and reads; Close ends it
	cancel context.CancelFunc
	wg     sync.WaitGroup
	lookup chan struct{} // a lock of discovery, of capacity 1

	mu        sync.Mutex
	closed    bool
	holders   map[string]*holder // by principal
	serial    uint64             // the last one
	challenge oauth.Bearer       // of the last 401
	isAsked   bool               // there was one
	found     *oauth.Discovery   // nil if it must be found again
	tried     time.Time          // the last discovery
	servers   map[string]server  // by issuer
	anew      map[string]time.Time
	watched   int  // holders with watchers
	polling   bool // for them
	stats     Stats
}

// server is the metadata of an authorization server.
type server struct {
	*oauth.Server
	until time.Time
}

// Stats are the counters of a Source.
type Stats struct {
	Renewals uint64  // that have succeeded
	Failures uint64  // of renewals
	Ended    uint64  // grants that the authorization server does not renew
	Last     Attempt // the last renewal or sign-in; its Scopes are empty
}

// holder is what is known of one principal.
type holder struct {
	principal  string
	grant      *vault.Grant // immutable; nil for none
	serial     uint64       // of the access token: each new one has a greater number; 0 for none
	spent      bool         // the access token had no life, and was used
	version    uint64       // counts changes of grant by this process
	completing int          // sign-ins by this process that are being completed
	leaving    int          // sign-outs by this process in progress
	signOuts   uint64       // counts those that have begun
	unsaved    bool         // the vault does not have grant, but the generation base
	base       uint64

	looked  time.Time // when the vault was last read
	looking *running  // the read in progress, or nil
	used    time.Time
	flight  *flight // the renewal in progress, or nil

	failure  error // of the last renewal, or nil
	failures int   // in a row
	retryAt  time.Time
	isLost   bool // the answer to a renewal may have been lost

	ended     *Missing  // why there is no grant, or nil
	lists     *Missing  // why the lists of the backend are refused with the access token, or nil
	renewed   time.Time // when a renewal was last forced
	refused   uint64    // the serial of a token that was refused although it was new
	refusedAt time.Time

	moved    string // the other issuer that was last reported
	steps    map[item][]step
	watchers map[chan struct{}]bool
}

// step is a step-up that was asked for.
type step struct {
	at     time.Time
	serial uint64
}

// flight is a renewal in progress.
type flight struct {
	isForced bool
	done     chan struct{}

	// The result, set before done is closed: an error, and the grant in use, nil for none.
	grant  *vault.Grant
	serial uint64
	err    error
}

// NewSource returns the Credentials of a backend. It sends nothing. The error is about the URL.
func NewSource(cfg SourceConfig) (*Source, error) {
	origin, err := client.OriginOf(cfg.URL)
	if err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Client.Issuer == "" {
		cfg.Client.Issuer = cfg.Issuer
	}
	s := &Source{
		cfg: cfg, origin: origin, lookup: make(chan struct{}, 1),
		holders: make(map[string]*holder), servers: make(map[string]server), anew: make(map[string]time.Time),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Close ends renewals and watches, and returns when they have ended. It may be called more than
// once.
func (s *Source) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
}

// Stats returns the counters.
func (s *Source) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// PerPrincipal reports true.
func (s *Source) PerPrincipal() bool { return true }

// For returns the access token of the principal of a request. The error is a *Missing if the
// principal has to sign in, and an *Error if there is no token for another reason.
func (s *Source) For(ctx context.Context, req *mcp.Request) (client.Credential, error) {
	if !s.isPerson(req) {
		return client.Credential{}, nil
	}
	g, serial, err := s.token(ctx, req.Principal)
	if err != nil {
		if _, ok := errors.AsType[*Missing](err); ok && s.maySendWithout(req) {
			return client.Credential{}, nil
		}
		return client.Credential{}, err
	}
	return bearer(g.AccessToken, s.origin, serial), nil
}

// Check returns the *Missing of a principal that has to sign in, and nil for one that has a grant,
// also if that cannot be renewed at the moment.
func (s *Source) Check(ctx context.Context, principal string) error {
	_, _, err := s.token(ctx, principal)
	if missing, ok := errors.AsType[*Missing](err); ok {
		return missing
	}
	return nil
}

// RefuseLists records that the backend requires another access token for its lists than the one
// with a serial.
func (s *Source) RefuseLists(m *Missing, serial uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.holders[m.Principal]; h != nil && h.serial == serial {
		h.lists = m
	}
}

// CheckLists is Check for the lists of the backend: it also returns what RefuseLists has recorded
// for the access token in use.
func (s *Source) CheckLists(ctx context.Context, principal string) error {
	if err := s.Check(ctx, principal); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.holders[principal]; h != nil && h.lists != nil {
		return h.lists
	}
	return nil
}

// Held is a grant that a principal has.
type Held struct {
	Serial   uint64    // of the access token; each new one has another number
	SignedIn time.Time // the sign-in that it is from
}

// Held returns the grant of a principal, or a *Missing if it has none that may be sent. Unlike
// Check it renews nothing, and waits for no more than a read of the vault, which is made if the last
// one was longer ago than age.
func (s *Source) Held(ctx context.Context, principal string, age time.Duration) (Held, error) {
	if s.isLookDue(principal, age) {
		if err := s.look(ctx, principal); err != nil {
			return Held{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.holderLocked(principal)
	if err := s.withheldLocked(h, time.Now()); err != nil {
		return Held{}, err
	}
	return Held{h.serial, h.grant.SignedIn}, nil
}

// Look reads the grants of many principals from the vault, with one list of it. Those that cannot be
// read stay as they are.
func (s *Source) Look(ctx context.Context, principals []string) error {
	all, err := s.cfg.Vault.Listing(ctx)
	if err != nil {
		return err
	}
	for _, principal := range principals {
		if err := cmp.Or(ctx.Err(), s.lookIn(ctx, principal, all.Grants)); err != nil {
			return err
		}
	}
	return nil
}

// Reread reads the grants of all principals in memory: another process has changed some of them. What
// waits for one of them goes on. Those that cannot be read stay as they are.
func (s *Source) Reread(ctx context.Context) error {
	all, err := s.cfg.Vault.Listing(ctx)
	if err != nil {
		return err
	}
	for principal, r := range s.reads() {
		if r != nil { // it may have begun before the change
			select {
			case <-r.done:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := cmp.Or(ctx.Err(), s.lookIn(ctx, principal, all.Grants)); err != nil {
			return err
		}
	}
	return nil
}

// reads returns the principals in memory, each with the read in progress, or nil.
func (s *Source) reads() map[string]*running {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]*running, len(s.holders))
	for principal, h := range s.holders {
		all[principal] = h.looking
	}
	return all
}

// Has reports whether a principal has a grant that may be sent, with scopes.
func (s *Source) Has(ctx context.Context, principal string, scopes []string) bool {
	g, _, err := s.token(ctx, principal)
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(scopes, func(scope string) bool { return !slices.Contains(g.Scopes, scope) })
}

// isPerson reports whether a request is one of a principal that can sign in.
func (s *Source) isPerson(req *mcp.Request) bool { return req.Principal != "" || s.cfg.Anonymous }

// maySendWithout reports whether a request without a grant may be sent without a credential.
func (s *Source) maySendWithout(req *mcp.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Optional && !s.isAsked {
		return true
	}
	// The gateway itself asks for the lists as "".
	return req.Principal == "" && isOwnMethod(req.Method)
}

// isOwnMethod reports whether the gateway itself may have caused a request: the life of a
// session, and lists.
func isOwnMethod(method string) bool {
	switch method {
	case "", "initialize", "server/discover", "ping", "logging/setLevel", "subscriptions/listen",
		"tools/list", "prompts/list", "resources/list", "resources/templates/list", "skills/list":
		return true
	}
	return false
}

// Refused renews the token after a 401, and asks for a sign-in with more scopes after a 403 that
// names them.
func (s *Source) Refused(ctx context.Context, req *mcp.Request, sent client.Credential, r client.Refusal) error {
	challenge, isBearer := oauth.BearerChallenge(http.Header{"Www-Authenticate": r.Challenges})
	s.note(challenge, isBearer, r.Status)
	if !s.isPerson(req) {
		return client.ErrRefused
	}
	if r.Status == http.StatusForbidden {
		return s.stepUp(ctx, req, challenge, sent.Generation)
	}
	return s.unauthorized(ctx, req.Principal, sent.Generation)
}

// note keeps a challenge for the next discovery.
func (s *Source) note(challenge oauth.Bearer, isBearer bool, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if status == http.StatusUnauthorized {
		s.isAsked = true
	}
	if !isBearer {
		return
	}
	if challenge.ResourceMetadata != "" && challenge.ResourceMetadata != s.challenge.ResourceMetadata {
		s.challenge.ResourceMetadata, s.found = challenge.ResourceMetadata, nil
	}
	if status == http.StatusUnauthorized {
		s.challenge.Scopes = challenge.Scopes // of a first sign-in; those of a 403 are a step-up's
	}
}

// unauthorized returns nil if there is another token than the one that was sent, after it has
// renewed that if necessary.
func (s *Source) unauthorized(ctx context.Context, principal string, sent uint64) error {
	if err := s.look(ctx, principal); err != nil {
		return err
	}
	s.mu.Lock()
	h := s.holderLocked(principal)
	now := time.Now()
	switch {
	case h.grant == nil:
		defer s.mu.Unlock()
		return s.missingLocked(h)
	case h.serial != sent:
		defer s.mu.Unlock()
		return nil
	case h.flight == nil && now.Sub(h.renewed) < renewInterval && h.failure != nil:
		defer s.mu.Unlock()
		return s.failure(h.failure)
	case h.flight == nil && now.Sub(h.renewed) < renewInterval:
		s.mu.Unlock()
		return s.refusedAnyway(ctx, h, sent)
	case h.grant.RefreshToken.IsZero():
		s.mu.Unlock()
		return s.refusedAnyway(ctx, h, sent)
	}
	f, err := s.startLocked(h, true) //nolint:contextcheck // a renewal does not end with a request
	if f != nil && f.isForced {
		h.renewed = now
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	switch {
	case f.err != nil:
		return s.failure(f.err)
	case f.serial != sent:
		return nil
	case !f.isForced: // it was in progress, and has found that the token was not due
		return s.unauthorized(ctx, principal, sent)
	}
	return s.refusedAnyway(ctx, h, sent)
}

// refusedAnyway returns the *Missing of a token that the backend refuses although it is new. The
// backend may have moved to another authorization server.
func (s *Source) refusedAnyway(ctx context.Context, h *holder, sent uint64) error {
	s.rediscover(ctx)
	s.mu.Lock()
	if h.serial != sent { // signed in meanwhile
		s.mu.Unlock()
		return nil
	}
	if h.grant == nil {
		defer s.mu.Unlock()
		return s.missingLocked(h)
	}
	h.refused, h.refusedAt = sent, time.Now()
	m, now := s.refusedLocked(h), h.grant.Issuer
	if s.found != nil {
		now = s.found.Server.Issuer
	}
	s.mu.Unlock()
	s.noteIssuer(ctx, h, m.Issuer, now)
	return m
}

// noteIssuer reports that a backend has another authorization server than that of a grant, once.
func (s *Source) noteIssuer(ctx context.Context, h *holder, before, now string) {
	s.mu.Lock()
	isNews := before != "" && before != now && h.moved != now
	if isNews {
		h.moved = now
	}
	s.mu.Unlock()
	if isNews {
		s.event(ctx, Event{Kind: IssuerChanged, Principal: h.principal, Issuer: now, Detail: before})
	}
}

// refusedLocked returns the *Missing of a grant that is not sent to the backend.
func (s *Source) refusedLocked(h *holder) *Missing {
	m := s.endedWith(h.grant, RefusedAnyway)
	if s.found != nil && s.found.Server.Issuer != h.grant.Issuer {
		m.Reason, m.Scopes = OtherIssuer, nil
	}
	return m
}

// missingLocked returns the *Missing of a holder without a grant.
func (s *Source) missingLocked(h *holder) *Missing {
	if h.ended != nil {
		return h.ended
	}
	return &Missing{Backend: s.cfg.Backend, Principal: h.principal, Reason: NeverSignedIn}
}

// stepUp returns the *Missing of a request that needs more scopes than were granted: at most
// twice for one item in ten minutes. It returns nil if they were granted meanwhile.
func (s *Source) stepUp(ctx context.Context, req *mcp.Request, challenge oauth.Bearer, sent uint64) error {
	if challenge.Error != oauth.ErrorInsufficientScope || len(challenge.Scopes) == 0 {
		return client.ErrRefused
	}
	if err := s.look(ctx, req.Principal); err != nil {
		return err
	}
	m, isNew, err := s.askForScopes(req, challenge, sent)
	if err != nil || m == nil {
		return err
	}
	if isNew {
		s.event(ctx, Event{Kind: StepUp, Principal: m.Principal, Issuer: m.Issuer})
	}
	return m
}

// askForScopes is stepUp with what is known. isNew reports whether the step-up was not asked for
// before. For scopes that were granted a sign-in changes nothing, and is not asked for.
func (s *Source) askForScopes(req *mcp.Request, challenge oauth.Bearer, sent uint64) (m *Missing, isNew bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.holderLocked(req.Principal)
	if h.grant == nil {
		return nil, false, s.missingLocked(h)
	}
	lacks := func(scope string) bool { return !slices.Contains(h.grant.Scopes, scope) }
	if !slices.ContainsFunc(challenge.Scopes, lacks) {
		if h.serial != sent {
			return nil, false, nil
		}
		return nil, false, &Error{"it requires the scopes " + scopeText(challenge.Scopes) + " and refuses your access, although that has them", nil}
	}
	union := oauth.ScopeSources{Granted: append([]string{}, h.grant.Scopes...), Challenge: challenge.Scopes}.Scopes()
	may, isNew := h.mayStepUpLocked(itemOf(req))
	if len(union) > maxScopes || !may {
		return nil, false, &Error{"it requires scopes that your access does not have, which are " + scopeText(challenge.Scopes), nil}
	}
	m = &Missing{Backend: s.cfg.Backend, Principal: h.principal, Reason: NeedsMoreScope, Scopes: union, Issuer: h.grant.Issuer}
	return m, isNew, nil
}

// item is a hash of the method and the name of what a request is about.
type item [sha256.Size]byte

func itemOf(req *mcp.Request) item {
	for _, f := range []mcp.Field{mcp.FieldName, mcp.FieldURI} {
		if name, ok := req.Params.Text(f); ok {
			return sha256.Sum256([]byte(req.Method + " " + name))
		}
	}
	return sha256.Sum256([]byte(req.Method))
}

// mayStepUpLocked reports whether the principal may be asked to sign in for more scopes because
// of an item, and counts it if it is new: requests with one token are one step-up.
func (h *holder) mayStepUpLocked(i item) (may, isNew bool) {
	now := time.Now()
	for other, steps := range h.steps {
		steps = slices.DeleteFunc(steps, func(one step) bool { return now.Sub(one.at) >= stepUpInterval })
		if h.steps[other] = steps; len(steps) == 0 {
			delete(h.steps, other)
		}
	}
	steps := h.steps[i]
	switch {
	case len(steps) > 0 && steps[len(steps)-1].serial == h.serial:
		return true, false
	case len(steps) >= maxStepUps, len(steps) == 0 && len(h.steps) >= maxStepItems:
		return false, false
	}
	if h.steps == nil {
		h.steps = make(map[item][]step)
	}
	h.steps[i] = append(steps, step{now, h.serial})
	return true, true
}

// eventGone reports that a grant was deleted.
func (s *Source) eventGone(ctx context.Context, g *vault.Grant, why Reason) {
	s.event(ctx, Event{Kind: GrantEnded, Principal: g.Principal, Issuer: g.Issuer, Detail: string(why)})
}

// event reports an event of this backend.
func (s *Source) event(ctx context.Context, e Event) {
	if s.cfg.Event != nil {
		e.Backend = s.cfg.Backend
		s.cfg.Event(ctx, e)
	}
}
