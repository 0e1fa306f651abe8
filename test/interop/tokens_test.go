// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/oauth2"

	"github.com/signalbox-mcp/signalbox/test/canary"
	"github.com/signalbox-mcp/signalbox/test/foreign"
)

// The gateway with authentication: every client sends a token, and what it can do is the
// same as without. The tokens are canaries: they must not be in anything that the gateway
// writes, with the log at level debug.

// wayOf is how a client sends a token. Its driver uses what the library has for that.
func wayOf(client string) string {
	return map[string]string{
		"go-sdk": "OAuthHandler", "mcp-go": "WithHTTPHeaders", "ts1": "OAuthClientProvider", "ts2": "AuthProvider", inspectorName: "headers of the server",
		"py-mcp": "headers of the HTTP client", "fastmcp": "auth", "py-mcp1": "headers of the HTTP client", "langchain": "headers of the server",
		"openai-agents": "headers of the server", "rmcp": "auth_header", "java-sdk": "httpRequestCustomizer",
	}[client]
}

// signedIn is the OAuthHandler of a client that has this token, and gets no other.
type signedIn string

func (s signedIn) TokenSource(context.Context) (oauth2.TokenSource, error) {
	return oauth2.StaticTokenSource(&oauth2.Token{AccessToken: string(s)}), nil
}

func (s signedIn) Authorize(_ context.Context, _ *http.Request, res *http.Response) error {
	res.Body.Close()
	return fmt.Errorf("the token was refused: %s %s", res.Status, res.Header.Get("WWW-Authenticate"))
}

// kind is a kind of token.
type kind string

const (
	static kind = "static" // of the configuration
	signed kind = "JWT"    // of an identity provider
)

// tokenOf returns the kind of token of a row: clients with several versions use both.
func tokenOf(r row) kind {
	if r.version == "2025-03-26" || r.era() == eraModern {
		return static
	}
	return signed
}

// issuer is an identity provider: its metadata, its key, and the tokens that it signs.
type issuer struct {
	url    string
	signer jose.Signer
}

func startIssuer(t testing.TB) *issuer {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key := jose.JSONWebKey{Key: private, KeyID: "one", Algorithm: string(jose.ES256), Use: "sig"}
	i := new(issuer)
	mux := http.NewServeMux()
	serve := func(path string, v func() any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(v()) // fails if the gateway has ended
		})
	}
	serve("/.well-known/oauth-authorization-server", func() any {
		return map[string]any{"issuer": i.url, "jwks_uri": i.url + "/keys", "authorization_endpoint": i.url + "/authorize", "token_endpoint": i.url + "/token"}
	})
	serve("/keys", func() any { return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}} })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	i.url = server.URL
	i.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, new(jose.SignerOptions).WithType("at+jwt"))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// token signs a token for a resource. It is valid for longer than the tests take.
func (i *issuer) token(t testing.TB, subject, resource string) string {
	t.Helper()
	claims, err := json.Marshal(map[string]any{
		"iss": i.url, "sub": subject, "aud": resource, "scope": "mcp:use", "jti": rand.Text(),
		"iat": time.Now().Unix(), "exp": time.Now().Add(2 * time.Hour).Unix(),
	})
	if err != nil {
		t.Fatal(err)
	}
	signed, err := i.signer.Sign(claims)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// guarded is a gateway in front of all servers, for requests with a token only.
type guarded struct {
	*foreign.Process

	secrets canary.Set
	tokens  map[row]string
	folder  string // of the configuration, the audit record and the state
	output  *output
}

// output collects what a process writes.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// withTokens runs all clients against such a gateway, and ends it.
func (gw gateway) withTokens(t testing.TB, all []client, servers []server, ans answers, gaps []gap) route {
	t.Helper()
	start := time.Now()
	g := gw.startGuarded(t, rows(all), servers)
	r := route{name: "with tokens", rows: rows(all), gaps: gaps}
	plans := through(servers, func(r row) target { return target{URL: g.URL, Token: g.tokens[r]} })(r, ans)
	r.results = runAll(t, all, plans)
	g.checkRefusal(t)
	g.crash(t)
	t.Logf("%s: %v", r.name, time.Since(start).Round(time.Second))
	return r
}

// startGuarded starts the gateway, with a token for each row and a policy that allows all of
// them everything.
func (gw gateway) startGuarded(t testing.TB, rows []row, servers []server) *guarded {
	t.Helper()
	folder, err := os.MkdirTemp("", "s") //nolint:usetesting // shorter: the path of a socket is bounded
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	g := &guarded{tokens: make(map[row]string), folder: folder, output: new(output)}
	provider, at, private := startIssuer(t), foreign.FreeAddress(t), t.TempDir()
	resource := "http://" + at + "/mcp"
	if *viaProfile {
		resource += "/p/" + everything
	}
	var entries []any
	for n, r := range rows {
		name := r.client + " " + r.version
		if tokenOf(r) == signed {
			g.tokens[r] = provider.token(t, name, resource)
		} else {
			g.tokens[r] = "static-" + rand.Text()
			file := filepath.Join(private, fmt.Sprint(n))
			if err := os.WriteFile(file, []byte(g.tokens[r]), 0o600); err != nil {
				t.Fatal(err)
			}
			entries = append(entries, map[string]any{"principal": name, "file": file})
		}
		g.secrets.Add(t, "token of "+name, g.tokens[r])
	}
	config := filepath.Join(folder, "signalbox.json")
	gw.mark = folder // of its own child processes
	gw.write(t, config, servers, map[string]any{
		"publicURL": "http://" + at, "log": map[string]any{"level": "debug", "calls": true}, "audit": map[string]any{"file": "audit.jsonl"},
		"auth": map[string]any{
			"tokens":  entries,
			"issuers": []any{map[string]any{"name": "corp", "issuer": provider.url, "scopes": []string{"mcp:use"}}},
		},
		"policy": map[string]any{"otherwise": "deny", "rules": []any{map[string]any{"name": "all", "allow": `principal.name != ""`}}},
	})
	g.Process = foreign.StartTo(t, g.output, "env", "XDG_STATE_HOME="+folder, gw.bin, "serve", "--config", config, "--listen", at)
	g.URL = resource
	return g
}

// get returns the response to a GET without a session, with a token or "".
func (g *guarded) get(t testing.TB, path, token string) (status int, body string) {
	t.Helper()
	base, _, _ := strings.Cut(g.URL, "/mcp")
	ctx, cancel := context.WithTimeout(t.Context(), featureLimit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	tr := new(http.Transport)
	defer tr.CloseIdleConnections()
	res, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// checkRefusal checks that a client without a token gets nothing: otherwise the tokens of the
// others would prove nothing.
func (g *guarded) checkRefusal(t testing.TB) {
	t.Helper()
	if status, body := g.get(t, "/mcp", ""); status != http.StatusUnauthorized {
		t.Errorf("without a token: got %d %s", status, body)
	}
}

// crash ends the gateway with the signal that has the runtime write all stacks, and looks for
// tokens in all that it has written: its output with these stacks, its status and metrics, the
// audit record and its state.
func (g *guarded) crash(t testing.TB) {
	t.Helper()
	var found []canary.Leak
	for _, path := range []string{"/status", "/metrics"} {
		for r, token := range g.tokens {
			if *viaProfile && tokenOf(r) == signed {
				continue // it is for the path of the profile alone
			}
			status, body := g.get(t, path, token)
			if status != http.StatusOK {
				t.Errorf("%s with the token of %v: got %d %s", path, r, status, body)
			}
			found = append(found, g.secrets.Scan(path, body)...)
			break
		}
	}
	if err := g.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	<-g.Done
	said := g.output.String()
	found = append(found, g.secrets.Scan("output", said)...)
	files, err := g.secrets.ScanFiles(g.folder)
	if err != nil {
		t.Error(err)
	}
	for _, leak := range append(found, files...) {
		t.Error(leak)
	}
	for _, part := range []string{"level=DEBUG", "goroutine "} {
		if !strings.Contains(said, part) {
			t.Errorf("there is no %q in the output of the gateway with tokens", part)
		}
	}
	record, err := os.ReadFile(filepath.Join(g.folder, "audit.jsonl"))
	if err != nil {
		t.Error(err)
	}
	for r := range g.tokens {
		if name := r.client + " " + r.version; !bytes.Contains(record, []byte(name+`"`)) {
			t.Errorf("the audit record has no call of %s", name)
		}
	}
	for line := range bytes.Lines(record) {
		if bytes.Contains(line, []byte(`"unauthenticated"`)) {
			t.Logf("%s", bytes.TrimSpace(line))
		}
	}
	t.Logf("%d bytes of output and %d of the audit record were scanned", len(said), len(record))
	g.awaitEnd(t)
}

// awaitEnd returns when the child processes have ended. Those of a crashed gateway end by
// themselves.
func (g *guarded) awaitEnd(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*foreign.StopGrace)
	defer cancel()
	for {
		left := running(t, g.folder)
		if len(left) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Errorf("after a crash these processes are left: %q", left)
			return
		case <-time.After(pollInterval):
		}
	}
}

// differences compares two routes with the same gaps. It returns one line for each cell that
// works on one of them only, except those whose result depends on concurrent events.
func (t table) differences(with, without route) []string {
	var wrong []string
	for c := range t.each(with) {
		a, b := with.results.works(c), without.results.works(c)
		if a == b || t.mayWork(c, with) {
			continue
		}
		works, fails := with, without
		if b {
			works, fails = without, with
		}
		wrong = append(wrong, fmt.Sprintf("%s works %s, and not %s: %s", c, works.name, fails.name, fails.results.why(c)))
	}
	return wrong
}

// mayWork reports whether the result of a cell depends on concurrent events.
func (t table) mayWork(c cell, way route) bool {
	g, known := t.gapOf(c, way)
	return known && g.mayWork
}

var errNoWay = errors.New("no way to send a token")

// printTokens writes a line for each row: how it sent its token, and how many of its tests
// worked with it and without.
func (t table) printTokens(w io.Writer, with, without route) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "client\tversion\ttoken\tsent by\ttests\twith and without\tneither\tby chance\tonly one")
	for _, r := range with.rows {
		how := wayOf(r.client)
		if how == "" {
			return fmt.Errorf("%s: %w", r.client, errNoWay)
		}
		var tests, both, neither, chance, one int
		for c := range t.each(with) {
			if c.row != r {
				continue
			}
			tests++
			switch a, b := with.results.works(c), without.results.works(c); {
			case t.mayWork(c, with):
				chance++
			case a && b:
				both++
			case a || b:
				one++
			default:
				neither++
			}
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\n", r.client, r.version, tokenOf(r), how, tests, both, neither, chance, one)
	}
	return tw.Flush()
}
