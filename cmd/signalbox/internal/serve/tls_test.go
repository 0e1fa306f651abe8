// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// authority is a certificate authority.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(t testing.TB, name string) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	return a
}

// sign returns a certificate of the authority, or its own if it has none yet.
func (a *authority) sign(c *x509.Certificate) (*x509.Certificate, crypto.Signer) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		a.t.Fatal(err)
	}
	if c.NotAfter.IsZero() {
		c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	signed, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return signed, key
}

// client returns the certificate of a client, with its name as a URI.
func (a *authority) client(name string, change func(*x509.Certificate)) tls.Certificate {
	a.t.Helper()
	c := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, URIs: []*url.URL{{Scheme: "spiffe", Host: "example.com", Path: "/" + name}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(c)
	}
	signed, key := a.sign(c)
	return tls.Certificate{Certificate: [][]byte{signed.Raw}, PrivateKey: key}
}

// server writes a certificate of the server and its key.
func (a *authority) server(certificate, key string) {
	a.t.Helper()
	signed, signer := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "gateway"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	der, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		a.t.Fatal(err)
	}
	writeAt(a.t, key, pemOf("PRIVATE KEY", der))
	writeAt(a.t, certificate, pemOf("CERTIFICATE", signed.Raw))
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func writeAt(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// tlsSite is a gateway with TLS on loopback.
type tlsSite struct {
	t                    *testing.T
	e                    *endpoint
	cas                  *authority // of the server
	people               *authority // of clients
	certificate, key, ca string     // files
}

// withTLSSite runs a gateway with a backend that has the tool whoami. configure may be nil.
func withTLSSite(t *testing.T, configure func(*config.Config)) *tlsSite {
	t.Helper()
	dir := t.TempDir()
	s := &tlsSite{
		t: t, cas: newAuthority(t, "servers"), people: newAuthority(t, "people"),
		certificate: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key"), ca: filepath.Join(dir, "ca.pem"),
	}
	s.cas.server(s.certificate, s.key)
	writeAt(t, s.ca, pemOf("CERTIFICATE", s.people.cert.Raw))
	cfg := config.Config{
		Listen: "127.0.0.1:0", TLS: &config.TLS{Certificate: s.certificate, Key: s.key, ClientCAs: s.ca},
		Auth: config.Auth{
			Tokens:       []config.Token{{Principal: "ci", Env: "X", Value: config.NewSecret("sesame-open-sesame")}},
			Certificates: &config.Certificates{Principal: "cert.uris[0]"},
			Proxy:        &config.AuthProxy{From: []string{"127.0.0.1/32"}, User: "X-Forwarded-User", Groups: "X-Forwarded-Groups"},
		},
	}
	if configure != nil {
		configure(&cfg)
	}
	own := ""
	gw, err := signalbox.New(cfg, signalbox.Options{
		Logger: slog.New(slog.DiscardHandler),
		InProcess: []signalbox.InProcess{{Name: "b", Prefix: &own, Handler: mcp.HandlerFunc(func(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
			switch req.Method {
			case "server/discover":
				return mcp.NewResult([]byte(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":1,"cacheScope":"public"}`))
			case "tools/list":
				return mcp.NewResult([]byte(`{"resultType":"complete","ttlMs":1,"cacheScope":"public","tools":[{"name":"whoami","inputSchema":{"type":"object"}}]}`))
			}
			text, err := json.Marshal(req.Principal + " by " + string(req.Identity.Via))
			if err != nil {
				return nil, err
			}
			return mcp.NewResult([]byte(`{"resultType":"complete","content":[{"type":"text","text":` + string(text) + `}]}`))
		})}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if s.e, err = listen(t.Context(), cfg.Effective()); err != nil {
		t.Fatal(err)
	}
	s.e.serve(gw, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if err := gw.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown = %v", err)
		}
		s.e.close(ctx)
	})
	return s
}

// transport returns a transport that trusts the server. client may be nil.
func (s *tlsSite) transport(http2 bool, client *tls.Certificate) *http.Transport {
	roots := x509.NewCertPool()
	roots.AddCert(s.cas.cert)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: http2}
	if client != nil {
		tr.TLSClientConfig.Certificates = []tls.Certificate{*client}
	}
	if !http2 {
		tr.Protocols = new(http.Protocols)
		tr.Protocols.SetHTTP1(true)
	}
	s.t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// whoami returns the answer of the tool, or the status and the text of the error.
func (s *tlsSite) whoami(tr *http.Transport, lines ...string) (status int, protocol, text string, err error) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.e.url, strings.NewReader(commandtest.CallOf("whoami")))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range commandtest.CallHeader("whoami") {
		req.Header.Set(f[0], f[1])
	}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Add(name, value)
	}
	res, err := tr.RoundTrip(req)
	if err != nil {
		return 0, "", "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, res.Proto, string(body), err
}

// The listener serves HTTP/1.1 and HTTP/2 with TLS, and identifies clients by their
// certificates. Those that it cannot verify get no connection, even with another credential
// (requirement N6).
func TestTLS(t *testing.T) {
	t.Parallel()
	s := withTLSSite(t, nil)
	if !strings.HasPrefix(s.e.url, "https://127.0.0.1:") {
		t.Errorf("the URL is %s", s.e.url)
	}
	ann := s.people.client("ann", nil)
	stranger := newAuthority(t, "people").client("ann", nil)
	expired := s.people.client("ann", func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	})
	forServers := s.people.client("ann", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	nameless := s.people.client("ann", func(c *x509.Certificate) { c.URIs = nil })
	const user, token = "X-Forwarded-User: bob", "Authorization: Bearer sesame-open-sesame"
	for _, tt := range []struct {
		name   string
		client *tls.Certificate
		lines  []string
		want   string // a part of the answer; "" without a connection
	}{
		{"certificate", &ann, nil, "certificate:spiffe://example.com/ann by certificate"},
		{"token before certificate", &ann, []string{token}, "ci by token"},
		{"bad token before certificate", &ann, []string{token + "x"}, "unknown bearer token"},
		{"certificate before proxy", &ann, []string{user}, "certificate:spiffe://example.com/ann by certificate"},
		{"certificate without the name, before proxy", &nameless, []string{user}, "the client certificate has no name"},
		{"proxy", nil, []string{user}, "proxy:bob by proxy"},
		{"proxy with two users", nil, []string{user, "X-Forwarded-User: ann"}, "does not name a single user"},
		{"token", nil, []string{token}, "ci by token"},
		{"nothing", nil, nil, "missing bearer token"},
		{"of another authority with the same name", &stranger, []string{token}, ""},
		{"expired", &expired, []string{token}, ""},
		{"for servers", &forServers, []string{token}, ""},
	} {
		for _, http2 := range []bool{false, true} {
			status, protocol, text, err := s.whoami(s.transport(http2, tt.client), tt.lines...)
			if tt.want == "" {
				if err == nil {
					t.Errorf("%s: %d %s", tt.name, status, text)
				}
				continue
			}
			if err != nil || !strings.Contains(text, tt.want) || (status == 200) != strings.Contains(tt.want, " by ") {
				t.Errorf("%s: %d %s, %v; want %s", tt.name, status, text, err, tt.want)
			}
			if (protocol == "HTTP/2.0") != http2 {
				t.Errorf("%s: %s", tt.name, protocol)
			}
		}
	}
	// Plain HTTP is not served at the port.
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.e.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if answer, _ := io.ReadAll(conn); strings.Contains(string(answer), "200") {
		t.Errorf("plain HTTP gets %q", answer)
	}
}

// Changed files are used for the next connections, also of clients that could resume a
// session. Files that do not fit together change nothing.
func TestTLSFilesChange(t *testing.T) {
	t.Parallel()
	s := withTLSSite(t, nil)
	ann := s.people.client("ann", nil)
	tr := s.transport(true, &ann)
	tr.TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	seen := func() string { // the certificate of the server, on a new connection
		tr.CloseIdleConnections()
		conn, err := (&tls.Dialer{Config: tr.TLSClientConfig}).DialContext(t.Context(), "tcp", s.e.listener.Addr().String())
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	first := seen()
	if _, _, text, err := s.whoami(tr); err != nil || !strings.Contains(text, "ann") {
		t.Fatalf("%s, %v", text, err)
	}
	old, err := os.ReadFile(s.certificate)
	if err != nil {
		t.Fatal(err)
	}
	s.cas.server(s.certificate, s.key)
	renewed, err := os.ReadFile(s.certificate)
	if err != nil {
		t.Fatal(err)
	}
	writeAt(t, s.certificate, old) // does not fit the new key
	s.look()
	if got := seen(); got != first {
		t.Errorf("with files that do not fit: %s", got)
	}
	writeAt(t, s.certificate, renewed)
	s.look()
	if got := seen(); got == first || strings.Contains(got, " ") {
		t.Errorf("after the change: %s", got)
	}
	if _, _, text, err := s.whoami(tr); err != nil || !strings.Contains(text, "ann") {
		t.Fatalf("%s, %v", text, err)
	}
	// The authority is replaced: its certificates count no longer.
	writeAt(t, s.ca, pemOf("CERTIFICATE", newAuthority(t, "others").cert.Raw))
	s.look()
	tr.CloseIdleConnections()
	if status, _, text, err := s.whoami(tr); err == nil && status != http.StatusUnauthorized { // clients may send none
		t.Errorf("of a former authority: %d %s", status, text)
	}
}

// look makes the next connection look at the files, as after statPause.
func (s *tlsSite) look() {
	s.e.tls.mu.Lock()
	defer s.e.tls.mu.Unlock()
	s.e.tls.looked = time.Time{}
	s.e.tls.files = make([]fileState, 3) // the clock of the file system may be coarse
}

// A handshake that does not end is ended with the time for the header.
func TestTLSHandshakeDeadline(t *testing.T) {
	t.Parallel()
	s := withTLSSite(t, func(c *config.Config) { c.Limits.HeaderRead = 100 * time.Millisecond })
	for _, begin := range []string{"", "\x16\x03\x01\x02\x00\x01"} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.e.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, begin)
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := conn.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
			t.Errorf("after %q: %v", begin, err)
		}
		_ = conn.Close()
	}
}
