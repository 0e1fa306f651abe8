// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/backoff"
)

// knownAlgorithms returns all signature algorithms that can be configured. None is symmetric:
// the key of such a token could be that of any verifier.
func knownAlgorithms() []string {
	return []string{"ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512", "EdDSA"}
}

// key is a public key of an issuer. A key that stays in the set is the same value after each
// fetch.
type key struct {
	id         string
	algorithm  string // the only one that it is for, or ""
	public     any
	thumbprint string
	source     *keySource
	gone       atomic.Bool // the issuer no longer has it
}

// minRSA is the size in bits below which an RSA key is not used (RFC 7518, section 3.3).
const minRSA = 2048

// fits reports whether the key is of the type of an algorithm, and for it. A key that is not
// public fits none.
func (k *key) fits(algorithm string) bool {
	if k.algorithm != "" && k.algorithm != algorithm {
		return false
	}
	switch public := k.public.(type) {
	case *rsa.PublicKey:
		return public.N.BitLen() >= minRSA && (strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS"))
	case *ecdsa.PublicKey:
		return map[string]string{"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[algorithm] == public.Curve.Params().Name
	case ed25519.PublicKey:
		return algorithm == "EdDSA"
	default:
		return false
	}
}

// knownUntil returns until when the key counts without another fetch.
func (k *key) knownUntil() time.Time {
	if set := k.source.set.Load(); set != nil {
		return set.until
	}
	return time.Time{}
}

// keySet is the keys of an issuer as they were fetched.
type keySet struct {
	keys  []*key
	until time.Time // they count without another fetch
}

// maxKeys bounds the keys of one issuer.
const maxKeys = 256

// parseKeySet returns the keys of a JSON Web Key Set that can verify a signature. Others are
// skipped, as RFC 7517, section 5, demands for those that are not understood.
func parseKeySet(raw []byte) ([]*key, error) {
	var doc struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, errors.New("it is not a JSON Web Key Set")
	}
	switch {
	case doc.Keys == nil:
		return nil, errors.New(`the JSON Web Key Set has no "keys"`)
	case len(doc.Keys) > maxKeys:
		return nil, fmt.Errorf("the JSON Web Key Set has more than %d keys", maxKeys)
	}
	keys := []*key{}
	for _, one := range doc.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(one) != nil || !k.Valid() || k.Use != "" && k.Use != "sig" {
			continue
		}
		sum, err := k.Thumbprint(crypto.SHA256)
		if err != nil {
			continue
		}
		found := &key{id: k.KeyID, algorithm: k.Algorithm, public: k.Key, thumbprint: string(sum)}
		if slices.ContainsFunc(knownAlgorithms(), found.fits) {
			keys = append(keys, found)
		}
	}
	return keys, nil
}

// find returns the key for the header of a token. With more than one key, the header has to
// name one. The error notVerified is final: no fetch can change it.
func (set *keySet) find(h *joseHeader) (k *key, err error) {
	if h.KeyID == nil {
		if len(set.keys) != 1 || !set.keys[0].fits(h.Algorithm) {
			return nil, notVerified
		}
		return set.keys[0], nil
	}
	for _, candidate := range set.keys {
		switch {
		case candidate.id != *h.KeyID:
		case !candidate.fits(h.Algorithm):
			err = notVerified
		case k != nil:
			return nil, notVerified // two keys with one id
		default:
			k = candidate
		}
	}
	if k != nil {
		return k, nil
	}
	return nil, err
}

// The bounds of what is kept of an issuer.
const (
	keepMetadata = time.Hour
	keepKeys     = time.Hour // without a max-age
	keepKeysMin  = 5 * time.Minute
	keepKeysMax  = 24 * time.Hour
	keepLastGood = 24 * time.Hour // while fetches fail

	// unknownKeyPause is the time between fetches for tokens with unknown keys.
	unknownKeyPause = 30 * time.Second

	// maxKeyWait is how long a request waits for a fetch, and maxKeyWaiters how many
	// requests do.
	maxKeyWait    = 5 * time.Second
	maxKeyWaiters = 1000
)

// errUnavailable reports that an issuer cannot be reached and its keys are not known.
var errUnavailable = errors.New("the keys of the issuer are not known")

// keySource has the keys of one issuer: those of the last good fetch, or those that the
// configuration pins. run fetches them; nothing else sends requests.
type keySource struct {
	name   string // of the issuer
	fetch  *fetcher
	pinned bool
	log    *slog.Logger
	set    atomic.Pointer[keySet] // nil before the first good fetch

	wanted  chan struct{} // capacity 1; requests a fetch
	waiters atomic.Int64

	mu      sync.Mutex
	round   chan struct{} // closed at the end of the fetch that runs or was requested, or nil
	asked   time.Time     // when a fetch was last requested for an unknown key
	fetched time.Time     // when the keys were last fetched
	tried   time.Time     // when that was last tried
	failure error         // of the last fetch, or nil
	good    uint64        // fetches
	failed  uint64
}

func newKeySource(cfg *Issuer, transport http.RoundTripper, log *slog.Logger) (*keySource, error) {
	s := &keySource{name: cfg.Name, log: log, wanted: make(chan struct{}, 1)}
	if cfg.KeySet == nil {
		s.fetch = newFetcher(cfg, transport)
		s.round = make(chan struct{}) // the first fetch, which run begins with
		return s, nil
	}
	keys, err := parseKeySet(cfg.KeySet)
	switch {
	case err != nil:
		return nil, err
	case len(keys) == 0:
		return nil, errors.New("the JSON Web Key Set has no public key for signatures")
	}
	s.pinned = true
	s.publish(keys, time.Now().Add(forever))
	return s, nil
}

// forever is longer than any process runs.
const forever = 100 * 365 * 24 * time.Hour

// run keeps the keys current until ctx ends.
func (s *keySource) run(ctx context.Context) {
	if s.pinned {
		return
	}
	retry := backoff.Backoff{Min: time.Second, Max: 30 * time.Second}
	for asked := false; ; {
		life, err := s.renew(ctx, asked)
		if err != nil {
			life = retry.Next()
		} else {
			retry.Reset()
		}
		if ctx.Err() != nil {
			return
		}
		next := time.NewTimer(life)
		asked = false
		select {
		case <-next.C:
		case <-s.wanted:
			asked = true
		case <-ctx.Done():
		}
		next.Stop()
	}
}

// renew fetches the keys, and returns for how long they need not be fetched again. asked is
// set for an unknown key, which is worth one request.
func (s *keySource) renew(ctx context.Context, asked bool) (time.Duration, error) {
	s.mu.Lock()
	select {
	case <-s.wanted: // the fetch that begins now is as good
	default:
	}
	if s.round == nil {
		s.round = make(chan struct{})
	}
	s.mu.Unlock()
	keys, life, err := s.fetch.keys(ctx, asked)
	now := time.Now()
	if err == nil {
		s.publish(keys, now.Add(max(keepLastGood, life)))
	}
	s.mu.Lock()
	before := s.failure
	s.tried, s.failure = now, err
	if err == nil {
		s.fetched = now
		s.good++
	} else if ctx.Err() == nil {
		s.failed++
	}
	close(s.round)
	s.round = nil
	s.mu.Unlock()
	switch {
	case ctx.Err() != nil:
	case err != nil && before == nil:
		s.log.WarnContext(ctx, "the keys of an identity provider cannot be fetched", slog.String("issuer", s.name), slog.Any("error", err))
	case err == nil && before != nil:
		s.log.InfoContext(ctx, "the keys of an identity provider were fetched again", slog.String("issuer", s.name))
	}
	return life, err
}

// publish replaces the set. Keys that stay are the same values as before.
func (s *keySource) publish(keys []*key, until time.Time) {
	var old []*key
	if set := s.set.Load(); set != nil {
		old = set.keys
	}
	for i, k := range keys {
		k.source = s
		same := func(other *key) bool {
			return other.thumbprint == k.thumbprint && other.id == k.id && other.algorithm == k.algorithm
		}
		if j := slices.IndexFunc(old, same); j >= 0 {
			keys[i] = old[j]
		}
	}
	s.set.Store(&keySet{keys, until})
	for _, k := range old {
		if !slices.Contains(keys, k) {
			k.gone.Store(true)
		}
	}
}

// current returns the keys that count, or nil.
func (s *keySource) current() *keySet {
	if set := s.set.Load(); set != nil && time.Now().Before(set.until) {
		return set
	}
	return nil
}

// find returns the key for the header of a token. If it is unknown and the token is worth a
// fetch, find waits for one. The error is notVerified, errUnavailable, or that of ctx.
func (s *keySource) find(ctx context.Context, h *joseHeader, worthy bool) (*key, error) {
	set := s.current()
	if set != nil {
		if k, err := set.find(h); k != nil || err != nil {
			return k, err
		}
	}
	if worthy && !s.pinned {
		if err := s.await(ctx, set != nil); err != nil {
			return nil, err
		}
		set = s.current()
	}
	if set == nil {
		return nil, errUnavailable
	}
	if k, err := set.find(h); k != nil || err != nil {
		return k, err
	}
	return nil, notVerified
}

// await waits for the fetch that runs. If none does and the keys are known, it requests one,
// unless that was done lately for another unknown key. Without keys, run repeats its attempts
// by itself.
func (s *keySource) await(ctx context.Context, known bool) error {
	if s.waiters.Add(1) > maxKeyWaiters {
		s.waiters.Add(-1)
		return nil
	}
	defer s.waiters.Add(-1)
	s.mu.Lock()
	if s.round == nil && known && time.Since(s.asked) >= unknownKeyPause {
		s.asked = time.Now()
		s.round = make(chan struct{})
		select {
		case s.wanted <- struct{}{}:
		default: // run has not taken the last one yet
		}
	}
	round := s.round
	s.mu.Unlock()
	if round == nil {
		return nil
	}
	late := time.NewTimer(maxKeyWait)
	defer late.Stop()
	select {
	case <-round:
	case <-late.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// IssuerStatus is the state of one issuer.
type IssuerStatus struct {
	Name string
	// Keys is the number of keys that are known, and Fetched when they were last fetched.
	// It is zero if that has not been done, or the configuration pins the keys.
	Keys    int
	Pinned  bool
	Fetched time.Time
	// Tried is when they were last to be fetched, and Failure why that failed, or nil.
	Tried   time.Time
	Failure error
	// Good and Failed are the numbers of fetches.
	Good, Failed uint64
}

func (s *keySource) status() IssuerStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := IssuerStatus{
		Name: s.name, Pinned: s.pinned, Fetched: s.fetched, Tried: s.tried, Failure: s.failure, Good: s.good, Failed: s.failed,
	}
	if set := s.current(); set != nil {
		st.Keys = len(set.keys)
	}
	return st
}

// Run keeps the keys of the issuers current until ctx ends. It must be called once, before
// tokens of issuers can be verified, and returns when all its goroutines have ended.
func (c *Chain) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, iss := range c.issuers {
		running.Go(func() { iss.keys.run(ctx) }) // waited for below; ends with ctx
	}
	running.Wait()
}

// Status returns the state of the issuers, in the order of the configuration. It does not
// block.
func (c *Chain) Status() []IssuerStatus {
	all := make([]IssuerStatus, 0, len(c.issuers))
	for _, iss := range c.issuers {
		all = append(all, iss.keys.status())
	}
	return all
}

// life returns for how long a response may be kept (RFC 9111, section 5.2.2.1), within
// bounds.
func life(h http.Header) time.Duration {
	for directive := range strings.SplitSeq(strings.Join(h.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		if !strings.EqualFold(name, "max-age") {
			continue
		}
		if seconds, err := time.ParseDuration(strings.Trim(value, `"`) + "s"); err == nil {
			return min(max(seconds, keepKeysMin), keepKeysMax)
		}
	}
	return keepKeys
}
