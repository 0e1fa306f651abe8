// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// request is one that a peer has received.
type request struct {
	method, path string
	header       http.Header
	form         url.Values // of a POST
	body         string
}

// peer is an HTTP server on loopback: a backend, an authorization server or both. Paths
// without a handler are 404.
type peer struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex
	handlers map[string]http.HandlerFunc
	requests []request
}

func newPeer(t *testing.T) *peer {
	p := &peer{t: t, handlers: make(map[string]http.HandlerFunc)}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

// newTLSPeer returns a peer with a certificate for *.example.com.
func newTLSPeer(t *testing.T) *peer {
	p := &peer{t: t, handlers: make(map[string]http.HandlerFunc)}
	p.Server = httptest.NewUnstartedServer(p)
	p.Config.ErrorLog = log.New(io.Discard, "", 0) // what the client refuses
	p.StartTLS()
	t.Cleanup(p.Close)
	return p
}

func (p *peer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Error(err)
	}
	got := request{r.Method, r.URL.RequestURI(), r.Header, nil, string(body)}
	if r.Header.Get("Content-Type") == "application/x-www-form-urlencoded" {
		if got.form, err = url.ParseQuery(got.body); err != nil {
			p.t.Error(err)
		}
	}
	p.mu.Lock()
	p.requests = append(p.requests, got)
	handler := p.handlers[r.URL.RequestURI()]
	p.mu.Unlock()
	if handler == nil {
		http.NotFound(w, r)
		return
	}
	r.Form = got.form
	handler(w, r)
}

func (p *peer) handle(path string, h http.HandlerFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handlers[path] = h
}

// answer serves a status and a value as JSON at a path.
func (p *peer) answer(path string, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		p.t.Fatal(err)
	}
	p.handle(path, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, status, text) })
}

func writeJSON(w http.ResponseWriter, status int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// paths returns the paths that were asked for, in order.
func (p *peer) paths() (paths []string) {
	for _, r := range p.received() {
		paths = append(paths, r.path)
	}
	return paths
}

func (p *peer) received() []request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// last returns the last request.
func (p *peer) last() request {
	p.t.Helper()
	all := p.received()
	if len(all) == 0 {
		p.t.Fatal("there was no request")
	}
	return all[len(all)-1]
}

// object is a JSON object.
type object map[string]any

// with returns the object with other members; nil removes one.
func (o object) with(members object) object {
	out := object{}
	for _, from := range []object{o, members} {
		for name, v := range from {
			out[name] = v
			if v == nil {
				delete(out, name)
			}
		}
	}
	return out
}

// metadata returns valid metadata of an issuer with endpoints below it.
func metadata(issuer string) object {
	return object{
		"issuer":                           issuer,
		"authorization_endpoint":           issuer + "/authorize",
		"token_endpoint":                   issuer + "/token",
		"registration_endpoint":            issuer + "/register",
		"revocation_endpoint":              issuer + "/revoke",
		"code_challenge_methods_supported": []string{"plain", "S256"},
	}
}

const wellKnownServer = "/.well-known/oauth-authorization-server"

func newClient(t *testing.T, cfg oauth.Config) *oauth.Client {
	t.Helper()
	c, err := oauth.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// wantCheck checks that err is a failure of a check.
func wantCheck(t *testing.T, err error, check oauth.Check) {
	t.Helper()
	_ = failedCheck(t, err, check)
}

// failedCheck is wantCheck, and returns the failure.
func failedCheck(t *testing.T, err error, check oauth.Check) *oauth.CheckError {
	t.Helper()
	failed, ok := errors.AsType[*oauth.CheckError](err)
	if !ok || failed.Check != check {
		t.Fatalf("the error is %v, want one of the check of %q", err, check)
	}
	return failed
}

// names is a DNS server on loopback.
type names struct {
	conn net.PacketConn

	mu      sync.Mutex
	answers map[string][][]netip.Addr // one element for each time that a name is asked for; the last stays
}

// newNames returns a DNS server, and a resolver that asks it.
func newNames(t *testing.T) (*names, *net.Resolver) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &names{conn: conn, answers: make(map[string][][]netip.Addr)}
	done := make(chan struct{})
	go func() { // ends when the connection is closed
		defer close(done)
		n.serve()
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return n, &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// set makes a name resolve to one group of addresses after the other.
func (n *names) set(name string, groups ...[]netip.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answers[name] = groups
}

func (n *names) serve() {
	buf := make([]byte, 1500)
	for {
		size, from, err := n.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		_, _ = n.conn.WriteTo(n.reply(buf[:size]), from)
	}
}

// reply answers one question (RFC 1035, section 4).
func (n *names) reply(query []byte) []byte {
	var labels []string
	i := 12
	for query[i] != 0 {
		labels = append(labels, string(query[i+1:i+1+int(query[i])]))
		i += 1 + int(query[i])
	}
	kind := binary.BigEndian.Uint16(query[i+1:])
	addrs := n.take(strings.ToLower(strings.Join(labels, ".")), kind)
	rcode := byte(0)
	if addrs == nil {
		rcode = 3 // the name does not exist
	}
	var records []byte
	count := uint16(0)
	for _, addr := range addrs {
		if (kind == 1) != addr.Is4() {
			continue
		}
		count++
		data := addr.AsSlice()
		records = append(records, 0xc0, 12, byte(kind>>8), byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(len(data)))
		records = append(records, data...)
	}
	out := append([]byte{query[0], query[1], 0x81, 0x80 | rcode, 0, 1}, byte(count>>8), byte(count), 0, 0, 0, 0)
	out = append(out, query[12:i+5]...)
	return append(out, records...)
}

// take returns the addresses of a name. A resolver asks for both families at once; the
// group advances with the question for A.
func (n *names) take(name string, kind uint16) []netip.Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	groups := n.answers[name]
	if len(groups) == 0 {
		return nil
	}
	if kind == 1 && len(groups) > 1 {
		n.answers[name] = groups[1:]
	}
	return groups[0]
}

func addrs(texts ...string) (list []netip.Addr) {
	for _, text := range texts {
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}
