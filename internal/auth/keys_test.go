// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"bytes"
	"encoding/base64"
	stdjson "encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// signedBy returns a token with a key id, signed with one of the testKeys.
func (p *provider) signedBy(key, kid string) string {
	return sign(p.t, "ES256", key, map[string]any{"kid": kid}, p.claims(nil))
}

// identity attack 3: the first token with a new key is served after one fetch. Tokens of the old
// key are served until it leaves the set, and not after, even if they were verified before.
func TestRotation(t *testing.T) {
	bubble(t, nil, func(s *site) {
		old := s.corp.token(nil)
		if _, err := s.as(old); err != nil {
			t.Fatal(err)
		}
		s.corp.set(func(p *provider) { p.keys = []string{"ec", "ec2"} })
		next := s.corp.signedBy("ec2", "ec2")
		var wg sync.WaitGroup // waited for below
		for range 50 {
			wg.Go(func() {
				if _, err := s.as(next); err != nil {
					t.Errorf("the first tokens with the new key: %v", err)
				}
			})
		}
		wg.Wait()
		if n := s.corp.fetches(); n != 2 {
			t.Errorf("%d fetches, want that of the start and one more", n)
		}
		if _, err := s.as(old); err != nil {
			t.Errorf("a token of the old key while that is in the set: %v", err)
		}
		s.corp.set(func(p *provider) { p.keys = []string{"ec2"} })
		time.Sleep(time.Hour) // without a max-age, the keys are kept so long
		synctest.Wait()
		fresh := s.corp.token(nil)
		for _, token := range []string{old, fresh} {
			if _, err := s.as(token); err == nil {
				t.Error("a token of a key that is gone is accepted")
			}
		}
	})
}

// A kept token ends with its key, and stays if its key stays.
func TestKeptTokenEndsWithItsKey(t *testing.T) {
	bubble(t, nil, func(s *site) {
		tokens := map[string]string{"ec": s.corp.token(nil), "ec2": s.corp.signedBy("ec2", "ec2")}
		s.corp.set(func(p *provider) { p.keys = []string{"ec", "ec2"} })
		for name, token := range tokens {
			if _, err := s.as(token); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		s.corp.set(func(p *provider) { p.keys = []string{"ec2", "ec3"} })
		time.Sleep(unknownKeyPause)
		if _, err := s.as(s.corp.signedBy("ec3", "ec3")); err != nil { // has the keys fetched
			t.Fatal(err)
		}
		for name, token := range tokens {
			if _, err := s.as(token); err == nil != (name == "ec2") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// identity attack 2 and requirement N11: tokens with random key ids cost one fetch in 30 s,
// and others wait for none of it.
func TestUnknownKeysAreBounded(t *testing.T) {
	bubble(t, nil, func(s *site) {
		good := s.corp.token(nil)
		if _, err := s.as(good); err != nil {
			t.Fatal(err)
		}
		end := time.Now().Add(time.Minute)
		n := 0
		for time.Now().Before(end) {
			if _, err := s.as(s.corp.signedBy("ec2", fmt.Sprint("random-", n))); err == nil {
				t.Fatal("let in")
			}
			begin := time.Now()
			if _, err := s.as(good); err != nil || time.Since(begin) != 0 {
				t.Fatalf("a good token: %v after %v", err, time.Since(begin))
			}
			n++
			time.Sleep(50 * time.Millisecond)
		}
		if got := s.corp.allRequests(); got > 2+3 { // the metadata are at the second place
			t.Errorf("%d requests for %d tokens: %v", got, n, s.corp.requests)
		}
		if got := s.corp.fetches(); got > 3 {
			t.Errorf("%d fetches of keys, want at most 3", got)
		}
		if got := s.partner.fetches(); got != 1 {
			t.Errorf("%d fetches from the other issuer, want 1", got)
		}
	})
}

// identity attack 2 and requirement N11, at full rate: 10,000 tokens in a second for a minute, each
// with another key id.
func TestFloodOfUnknownKeys(t *testing.T) {
	bubble(t, nil, func(s *site) {
		good := s.corp.token(nil)
		if _, err := s.as(good); err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(s.corp.signedBy("ec2", "any"), ".") // without the key, the signature is not looked at
		const rate = 10_000
		seconds := 60
		if testing.Short() {
			seconds = 1
		}
		for n := range rate * seconds {
			header := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"alg":"ES256","kid":"random-%d"}`, n))
			if _, err := s.as(header + "." + rest); err == nil {
				t.Fatal("let in")
			}
			if n%100 != 99 {
				continue
			}
			begin := time.Now()
			if _, err := s.as(good); err != nil || time.Since(begin) != 0 {
				t.Fatalf("a good token after %d others: %v after %v", n, err, time.Since(begin))
			}
			time.Sleep(100 * time.Second / rate)
		}
		if got := s.corp.fetches(); got > 3 {
			t.Errorf("%d fetches of keys, want at most 3", got)
		}
		if got := s.corp.allRequests(); got > 2+3 {
			t.Errorf("%d requests", got)
		}
	})
}

// A token that would be refused anyway causes no fetch for its key.
func TestWorthlessTokensCauseNoFetch(t *testing.T) {
	bubble(t, nil, func(s *site) {
		synctest.Wait()
		before := s.corp.allRequests()
		for _, changes := range []map[string]any{
			{"exp": time.Now().Add(-time.Hour).Unix()}, {"aud": "other"}, {"nonce": "x"}, {"cnf": "x"}, {"sub": ""},
		} {
			_, err := s.as(sign(t, "ES256", "ec2", map[string]any{"kid": "random"}, s.corp.claims(changes)))
			if status, _, message := answer(err); status != 401 || message != string(notVerified) {
				t.Errorf("%v: %d %s", changes, status, message)
			}
		}
		if got := s.corp.allRequests(); got != before {
			t.Errorf("%d requests: %v", got-before, s.corp.requests)
		}
	})
}

// outage is a way in which an issuer fails.
type outage struct {
	name    string
	respond func(w http.ResponseWriter, r *http.Request) bool
	log     string // in the warning
}

func outages() []outage {
	asJSON := func(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/json") }
	onlyKeys := func(f func(w http.ResponseWriter)) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/keys" {
				f(w)
			}
			return r.URL.Path == "/keys"
		}
	}
	return []outage{
		{"status 500", func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true }, "status 500"},
		{"keys: status 500", onlyKeys(func(w http.ResponseWriter) { w.WriteHeader(500) }), "status 500"},
		{"keys: not found", onlyKeys(func(w http.ResponseWriter) { w.WriteHeader(404) }), "status 404"},
		{"keys: HTML", onlyKeys(func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<html>sign in") }), "content type"},
		{"keys: HTML as JSON", onlyKeys(func(w http.ResponseWriter) { asJSON(w); _, _ = io.WriteString(w, "<html>sign in") }), "not a JSON Web Key Set"},
		{"keys: no keys", onlyKeys(func(w http.ResponseWriter) { asJSON(w); _, _ = io.WriteString(w, "{}") }), `has no \"keys\"`},
		{"keys: 50 MB", onlyKeys(func(w http.ResponseWriter) {
			asJSON(w)
			piece := bytes.Repeat([]byte(" "), 1<<20)
			for range 50 {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		}), "256 KiB"},
		{"keys: too many", onlyKeys(func(w http.ResponseWriter) {
			asJSON(w)
			_, _ = io.WriteString(w, `{"keys":[`+strings.Repeat("{},", maxKeys)+`{}]}`)
		}), "more than 256 keys"},
		{"keys: redirect", onlyKeys(func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://127.0.0.1:1002/keys")
			w.WriteHeader(302)
		}), "redirect"},
		{"keys: cut", onlyKeys(func(w http.ResponseWriter) {
			asJSON(w)
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "{")
			panic(http.ErrAbortHandler)
		}), "EOF"},
		{"silence", silence, "deadline"},
		{"no metadata", func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(404); return true }, "no metadata"},
		{"metadata of another issuer", func(w http.ResponseWriter, r *http.Request) bool {
			asJSON(w)
			_, _ = io.WriteString(w, `{"issuer": "http://127.0.0.1:1002", "jwks_uri": "http://127.0.0.1:1002/keys"}`)
			return true
		}, "the issuer is"},
		{"keys elsewhere over http", func(w http.ResponseWriter, r *http.Request) bool {
			asJSON(w)
			_, _ = io.WriteString(w, `{"issuer": "http://127.0.0.1:1001", "jwks_uri": "http://keys.example/keys"}`)
			return true
		}, "https URL is needed"},
	}
}

// identity attack 4 and requirement N10: while an issuer fails from the start, its tokens get a
// 503, and all others are served. Once it works, so do its tokens.
func TestOutageAtTheStart(t *testing.T) {
	for _, o := range outages() {
		t.Run(o.name, func(t *testing.T) {
			var log syncBuffer
			bubble(t, func(cfg *Config, corp *provider) {
				corp.respond = o.respond
				cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			}, func(s *site) {
				time.Sleep(20 * time.Second)
				token := s.corp.token(nil)
				_, err := s.as(token)
				if status, challenge, message := answer(err); status != 503 || challenge != "" || message != "the identity provider corp cannot be reached and its keys are not known" {
					t.Errorf("%d %s %s", status, challenge, message)
				}
				begin := time.Now()
				for _, other := range []string{s.partner.token(nil), "a-token-of-the-configuration"} {
					if _, err := s.as(other); err != nil || time.Since(begin) != 0 {
						t.Errorf("another sender: %v after %v", err, time.Since(begin))
					}
				}
				if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), o.log) {
					t.Errorf("%d records, want one with %q:\n%s", n, o.log, log.String())
				}
				if st := s.chain.Status()[0]; st.Failure == nil || st.Failed == 0 || st.Good != 0 || !st.Fetched.IsZero() || st.Keys != 0 {
					t.Errorf("status %+v", st)
				}
				s.corp.set(func(p *provider) { p.respond = nil })
				time.Sleep(time.Minute)
				if _, err := s.as(token); err != nil {
					t.Errorf("after the outage: %v", err)
				}
				if st := s.chain.Status()[0]; st.Failure != nil || st.Good != 1 || st.Keys != 2 {
					t.Errorf("status %+v", st)
				}
			})
		})
	}
}

// What is at a place of the metadata instead of them is passed over, and a redirect is not
// followed. If no place has them, the error has all places, with what is there.
func TestMetadataAtAnotherPlace(t *testing.T) {
	const first, second = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	answer := func(contentType, body string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", contentType)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, tt := range map[string]struct {
		respond func(w http.ResponseWriter)
		why     string
	}{
		"an error": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }, "status 403"},
		"a redirect": {func(w http.ResponseWriter) {
			w.Header().Set("Location", "/keys")
			w.WriteHeader(http.StatusFound)
		}, "status 302, a redirect, which is not followed"},
		"a page":          {answer("text/html", "<html>sign in"), `the content type is "text/html", not application/json`},
		"a page as JSON":  {answer("application/json", "<html>sign in"), "it is not metadata of an authorization server"},
		"another message": {answer("application/json", `{"message": "not found"}`), "it is not metadata of an authorization server"},
	} {
		t.Run(name, func(t *testing.T) {
			without := func(places ...string) func(*Config, *provider) {
				return func(_ *Config, corp *provider) {
					corp.respond = func(w http.ResponseWriter, r *http.Request) bool {
						isHere := slices.Contains(places, r.URL.Path)
						if isHere {
							tt.respond(w)
						}
						return isHere
					}
				}
			}
			bubble(t, without(first), func(s *site) {
				if _, err := s.as(s.corp.token(nil)); err != nil {
					t.Errorf("metadata at the second place: %v", err)
				}
				if n := s.corp.fetches(); n != 1 {
					t.Errorf("%d requests for keys, want 1", n)
				}
			})
			bubble(t, without(first, second), func(s *site) {
				synctest.Wait()
				want := fmt.Sprintf("the issuer has no metadata: %s%s: %s; %[1]s%[4]s: %[3]s", s.corp.url, first, tt.why, second)
				if st := s.chain.Status()[0]; st.Failure == nil || st.Failure.Error() != want {
					t.Errorf("got %v\nwant %s", st.Failure, want)
				}
			})
		})
	}
}

// While an issuer fails, its last good keys count for a day, then its tokens get a 503.
func TestLastGoodKeys(t *testing.T) {
	bubble(t, nil, func(s *site) {
		synctest.Wait()
		s.corp.set(func(p *provider) { p.respond = outages()[0].respond })
		for _, tt := range []struct {
			after time.Duration
			want  int
		}{{2 * time.Hour, 200}, {21 * time.Hour, 200}, {time.Hour + time.Second, 503}} {
			time.Sleep(tt.after)
			begin := time.Now()
			_, err := s.as(s.corp.token(nil))
			if status, _, message := answer(err); status != tt.want || time.Since(begin) > maxKeyWait {
				t.Errorf("after %v: %d %s, want %d", tt.after, status, message, tt.want)
			}
		}
		if _, err := s.as(s.partner.token(nil)); err != nil {
			t.Errorf("the other issuer: %v", err)
		}
		s.corp.set(func(p *provider) { p.respond = nil })
		time.Sleep(time.Minute)
		if _, err := s.as(s.corp.token(nil)); err != nil {
			t.Errorf("after the outage: %v", err)
		}
	})
}

// A request waits for the first fetch, and no longer than a few seconds.
func TestRequestWaitsForTheFirstFetch(t *testing.T) {
	bubble(t, func(_ *Config, corp *provider) {
		corp.respond = func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/keys" {
				time.Sleep(4 * time.Second)
			}
			return false
		}
	}, func(s *site) {
		begin := time.Now()
		if _, err := s.as(s.corp.token(nil)); err != nil {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
	bubble(t, func(_ *Config, corp *provider) { corp.respond = silence }, func(s *site) {
		begin := time.Now()
		_, err := s.as(s.corp.token(nil))
		if status, _, _ := answer(err); status != 503 || time.Since(begin) != maxKeyWait {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

// silence answers nothing.
func silence(_ http.ResponseWriter, r *http.Request) bool {
	<-r.Context().Done()
	return true
}

// The keys are kept for their max-age, within bounds.
func TestMaxAge(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": time.Hour, "no-store": time.Hour, "max-age=1": 5 * time.Minute, "public, max-age=600": 10 * time.Minute,
		`Max-Age="7200"`: 2 * time.Hour, "max-age=999999999": 24 * time.Hour, "max-age=x": time.Hour, "s-maxage=60": time.Hour,
		"max-age=-5": 5 * time.Minute, "max-age=99999999999999999999": time.Hour,
	} {
		t.Run(header, func(t *testing.T) {
			bubble(t, func(_ *Config, corp *provider) { corp.maxAge = header }, func(s *site) {
				synctest.Wait()
				time.Sleep(want - time.Second)
				synctest.Wait()
				if n := s.corp.fetches(); n != 1 {
					t.Errorf("%d fetches just before, want 1", n)
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				if n := s.corp.fetches(); n != 2 {
					t.Errorf("%d fetches just after, want 2", n)
				}
			})
		})
	}
}

// Pinned keys need no issuer.
func TestPinnedKeys(t *testing.T) {
	bubble(t, func(cfg *Config, _ *provider) { cfg.Issuers[0].KeySet = keySetOf(t, "ec", "ed") }, func(s *site) {
		if _, err := s.as(s.corp.token(nil)); err != nil {
			t.Error(err)
		}
		if _, err := s.as(sign(t, "EdDSA", "ed", map[string]any{"kid": "ed"}, s.corp.claims(nil))); err != nil {
			t.Error(err)
		}
		if _, err := s.as(s.corp.signedBy("ec2", "ec2")); err == nil {
			t.Error("another key is accepted")
		}
		if n := s.corp.allRequests(); n != 0 {
			t.Errorf("%d requests", n)
		}
		if st := s.chain.Status()[0]; !st.Pinned || st.Keys != 2 {
			t.Errorf("status %+v", st)
		}
	})
}

// Keys at a configured URL are fetched as discovered ones are, without metadata, whatever their
// content type: when they are old, at most once in 30 s for unknown keys, and while that fails
// the last good ones count for a day.
func TestKeysAtURL(t *testing.T) {
	asText := func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/certs" {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = w.Write(keySetOf(t, "ec"))
		}
		return r.URL.Path == "/certs"
	}
	bubble(t, func(cfg *Config, corp *provider) {
		cfg.Issuers[0].KeysURL = corp.url + "/certs"
		corp.respond = asText
	}, func(s *site) {
		if _, err := s.as(s.corp.token(nil)); err != nil {
			t.Fatal(err)
		}
		for range 600 {
			if _, err := s.as(s.corp.signedBy("ec2", "unknown")); err == nil {
				t.Fatal("an unknown key is accepted")
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := s.corp.requestsTo("/certs"); n < 2 || n > 1+3 || s.corp.allRequests() != n {
			t.Errorf("%d requests of %d for 600 tokens with an unknown key", n, s.corp.allRequests())
		}
		before := s.corp.requestsTo("/certs")
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := s.corp.requestsTo("/certs"); n != before+1 {
			t.Errorf("%d requests in an hour, want 1", n-before)
		}
		s.corp.set(func(p *provider) { p.respond = outages()[0].respond })
		for _, tt := range []struct {
			after time.Duration
			want  int
		}{{23 * time.Hour, 200}, {time.Hour + time.Second, 503}} {
			time.Sleep(tt.after)
			_, err := s.as(s.corp.token(nil))
			if status, _, message := answer(err); status != tt.want {
				t.Errorf("after %v: %d %s, want %d", tt.after, status, message, tt.want)
			}
		}
		s.corp.set(func(p *provider) { p.respond = asText })
		time.Sleep(time.Minute)
		if _, err := s.as(s.corp.token(nil)); err != nil {
			t.Errorf("after the outage: %v", err)
		}
		if st := s.chain.Status()[0]; st.Pinned || st.Keys != 1 || st.Failure != nil || len(s.corp.requests) != 1 {
			t.Errorf("status %+v, requests %v", st, s.corp.requests)
		}
	})
	bubble(t, func(cfg *Config, corp *provider) {
		cfg.Issuers[0].KeysURL = "http://keys.example/certs"
	}, func(s *site) {
		synctest.Wait()
		if st := s.chain.Status()[0]; st.Failure == nil || !strings.Contains(st.Failure.Error(), "https URL is needed") {
			t.Errorf("keys over http: %v", st.Failure)
		}
	})
}

// Without a key id, the set must have one key only.
func TestOnlyKeyNeedsNoID(t *testing.T) {
	bubble(t, func(cfg *Config, _ *provider) {
		cfg.Issuers[0].KeySet = keySetOf(t, "ec")
		cfg.Issuers[1].KeySet = keySetOf(t, "ec", "ec2")
	}, func(s *site) {
		for _, p := range []*provider{s.corp, s.partner} {
			_, err := s.as(sign(t, "ES256", "ec", nil, p.claims(nil)))
			if (err == nil) != (p == s.corp) {
				t.Errorf("%s: %v", p.name, err)
			}
		}
	})
}

// Of two keys with one id that fit, neither is used. Otherwise the one that fits is.
func TestKeysWithOneID(t *testing.T) {
	named := func(names ...string) *keySet {
		set := new(keySet)
		for _, name := range names {
			set.keys = append(set.keys, &key{id: "k", public: testKeys()[name].Public()})
		}
		return set
	}
	id := "k"
	h := &joseHeader{Algorithm: "ES256", KeyID: &id}
	if k, err := named("ec", "ec2").find(h); k != nil || err == nil {
		t.Errorf("two that fit: %v, %v", k, err)
	}
	if k, err := named("rsa", "ec", "ec384").find(h); k == nil || err != nil {
		t.Errorf("one that fits: %v, %v", k, err)
	}
}

func TestKeySets(t *testing.T) {
	private, err := stdjson.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: testKeys()["ec"], KeyID: "ec"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		raw  string
		keys int // -1 is an error
	}{
		"none":                {`{"keys":[]}`, 0},
		"not an object":       {`[]`, -1},
		"absent":              {`{"issuer":"x"}`, -1},
		"null":                {`{"keys":null}`, -1},
		"twice":               {`{"keys":[],"keys":[]}`, -1},
		"symmetric":           {`{"keys":[{"kty":"oct","k":"AAECAwQFBgcICQoLDA0ODw","kid":"a","alg":"HS256"}]}`, 0},
		"private":             {string(private), 0},
		"of an unknown type":  {`{"keys":[{"kty":"AKP","kid":"a","pub":"x"}, ` + string(keySetOf(t, "ec"))[len(`{"keys":[`):], 1},
		"point not on curve":  {`{"keys":[{"kty":"EC","crv":"P-256","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","y":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE"}]}`, 0},
		"for encryption":      {strings.ReplaceAll(string(keySetOf(t, "ec")), `"use":"sig"`, `"use":"enc"`), 0},
		"too short":           {string(keySetOf(t, "rsa1024")), 0},
		"of all known types":  {string(keySetOf(t, "ec", "ec384", "rsa", "ed")), 4},
		"for a symmetric alg": {strings.ReplaceAll(string(keySetOf(t, "rsa")), `"use":"sig"`, `"use":"sig","alg":"HS256"`), 0},
	} {
		keys, err := parseKeySet([]byte(tt.raw))
		if (err != nil) != (tt.keys < 0) || err == nil && len(keys) != tt.keys {
			t.Errorf("%s: %d keys, %v; want %d", name, len(keys), err, tt.keys)
		}
	}
}

// The number of kept tokens is bounded, and a dropped one is verified again.
func TestKeptTokensAreBounded(t *testing.T) {
	var c cache
	k := new(key)
	now := time.Now()
	for i := range maxKept + 1000 {
		sum := digest{byte(i), byte(i >> 8), byte(i >> 16)}
		c.put(&sum, &verified{key: k, until: now.Add(time.Minute)}, now)
	}
	if n := len(c.kept); n > maxKept {
		t.Errorf("%d tokens are kept, want at most %d", n, maxKept)
	}
	// Those that have ended leave first.
	later := now.Add(time.Hour)
	sum := digest{1, 2, 3, 4}
	c.put(&sum, &verified{key: k, until: later.Add(time.Minute)}, later)
	if n := len(c.kept); n > maxKept-16 {
		t.Errorf("%d tokens are kept after all have ended", n)
	}
	if c.get(&sum, later) == nil {
		t.Error("the newest is gone")
	}
}

// syncBuffer is a buffer for a log.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
