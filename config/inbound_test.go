// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writePair writes a certificate and its key.
func writePair(t *testing.T, certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{certificate: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// pemDir returns a folder with a.crt, a.key, b.crt, b.key and text.pem.
func pemDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	writePair(t, at("a.crt"), at("a.key"))
	writePair(t, at("b.crt"), at("b.key"))
	if err := os.WriteFile(at("text.pem"), []byte("hunter2"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

const goodTLS = `tls: {certificate: a.crt, key: a.key, clientCAs: b.crt}`

// Each setting of a form of credentials that cannot work, or would let others in, is refused or
// noted, at its place.
func TestFormsOfCredentials(t *testing.T) {
	dir := pemDir(t)
	const certificates = `auth: {certificates: {principal: "cert.uris[0]"}}`
	proxy := func(more string) string { return `auth: {proxy: {` + more + `}}` }
	introspect := func(more string) string {
		return `publicURL: "https://mcp.example.com", auth: {issuers: [{name: corp, issuer: "https://id.example.com", introspect: {` + more + `}}]}`
	}
	const client = `clientId: gw, clientSecret: "${SECRET}"`
	for _, tt := range []struct {
		name, text string
		path, want string // of the one problem; "" for none
	}{
		{"certificates", goodTLS + ", " + certificates, "", ""},
		{"TLS alone", `tls: {certificate: a.crt, key: a.key}`, "", ""},
		{"no key", `tls: {certificate: a.crt}`, "tls", `has no "key"`},
		{"no certificate", `tls: {key: a.key}`, "tls", `has no "certificate"`},
		{"nothing", `tls: {}`, "tls", `has no "certificate"`},
		{"another key", `tls: {certificate: a.crt, key: b.key}`, "tls.certificate", "private key does not match"},
		{"missing certificate", `tls: {certificate: no.crt, key: a.key}`, "tls.certificate", "cannot be read"},
		{"missing key", `tls: {certificate: a.crt, key: no.key}`, "tls.key", "cannot be read"},
		{"a folder", `tls: {certificate: ., key: a.key}`, "tls.certificate", "not a regular file"},
		{"no PEM", `tls: {certificate: a.crt, key: text.pem}`, "tls.certificate", "failed to find any PEM data"},
		{"authorities without PEM", `tls: {certificate: a.crt, key: a.key, clientCAs: text.pem}, ` + certificates, "tls.clientCAs", "no certificate in PEM"},
		{"authorities without certificates", goodTLS, "tls.clientCAs", `no effect without "auth.certificates"`},
		{"unknown key", `tls: {certificate: a.crt, key: a.key, minVersion: "1.0"}`, "tls.minVersion", "unknown key"},

		{"certificates without TLS", certificates, "auth.certificates", `"tls.clientCAs"`},
		{"certificates without authorities", `tls: {certificate: a.crt, key: a.key}, ` + certificates, "auth.certificates", `"tls.clientCAs"`},
		{"no expression", goodTLS + `, auth: {certificates: {}}`, "auth.certificates", "does not specify the principal"},
		{"another variable", goodTLS + `, auth: {certificates: {principal: "claims.sub"}}`, "auth.certificates.principal", "undeclared reference"},
		{"static principal of a certificate", goodTLS + `, auth: {tokens: [{principal: "certificate:x", env: SECRET}], certificates: {principal: "cert.subject"}}`, "auth.tokens[0].principal", `begins with "certificate:"`},

		{"proxy", proxy(`from: [10.0.0.0/28, "fd00::/64"], user: X-User, groups: X-Groups`) + `, listen: "0.0.0.0:1"`, "", ""},
		{"no from", proxy(`user: X-User`), "auth.proxy", "the addresses of the proxy"},
		{"empty from", proxy(`from: [], user: X-User`), "auth.proxy", "the addresses of the proxy"},
		{"no user", proxy(`from: [127.0.0.1/32]`), "auth.proxy", "does not specify the header"},
		{"an address", proxy(`from: [10.0.0.5], user: X-User`), "auth.proxy.from[0]", "is not a CIDR"},
		{"a name", proxy(`from: [proxy.internal], user: X-User`), "auth.proxy.from[0]", "is not a CIDR"},
		{"bits behind the length", proxy(`from: [10.0.0.5/8], user: X-User`), "auth.proxy.from[0]", "write 10.0.0.0/8, or 10.0.0.5/32 for one address"},
		{"Authorization", proxy(`from: [127.0.0.1/32], user: authorization`), "auth.proxy.user", "has another use"},
		{"a header of the protocol", proxy(`from: [127.0.0.1/32], user: Mcp-Session-Id`), "auth.proxy.user", "has another use"},
		{"a cookie", proxy(`from: [127.0.0.1/32], user: X-User, groups: Cookie`), "auth.proxy.groups", "has another use"},
		{"no name of a header", proxy(`from: [127.0.0.1/32], user: "a b"`), "auth.proxy.user", "not the name of a header"},
		{"one header", proxy(`from: [127.0.0.1/32], user: X-User, groups: x-user`), "auth.proxy.groups", "are one header"},
		{"static principal of the proxy", `auth: {tokens: [{principal: "proxy:x", env: SECRET}], proxy: {from: [127.0.0.1/32], user: X-User}}`, "auth.tokens[0].principal", `begins with "proxy:"`},
		{"issuer with the prefix of the proxy", `publicURL: "https://x", auth: {issuers: [{name: proxy, issuer: "https://id.example.com"}], proxy: {from: [127.0.0.1/32], user: X-User}}`, "auth.issuers[0].name", "the prefix of the principals"},
		{"the signed header of an issuer", `publicURL: "https://x", auth: {issuers: [{name: corp, issuer: "https://id.example.com", header: X-Jwt}], proxy: {from: [127.0.0.1/32], user: x-jwt}}`, "auth.proxy.user", "has another use"},
		{"with allowUnauthenticated", proxy(`from: [127.0.0.1/32], user: X-User`) + `, allowUnauthenticated: true`, "allowUnauthenticated", "contradicts"},

		{"introspection", introspect(client), "", ""},
		{"no client", introspect(`clientSecret: "${SECRET}"`), "auth.issuers[0].introspect", `has no "clientId"`},
		{"no credential", introspect(`clientId: gw`), "auth.issuers[0].introspect", "no credential"},
		{"two credentials", introspect(client + `, clientKey: "hunter2"`), "auth.issuers[0].introspect.clientKey", "are both set"},
		{"no key in it", introspect(`clientId: gw, clientKey: "hunter2"`), "auth.issuers[0].introspect.clientKey", "cannot be used"},
		{"two issuers", strings.Replace(introspect(client), "}]}", `}, {name: other, issuer: "https://other.example", introspect: {`+client+`}}]}`, 1), "auth.issuers[1].introspect", "which one to ask"},
		{"with a signed header", strings.Replace(introspect(client), "introspect:", "header: X-Jwt, introspect:", 1), "auth.issuers[0].introspect", "a header of its own"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := func(string) (string, bool) { return "sesame-open-sesame", true }
			_, err := Parse(filepath.Join(dir, "x.yaml"), []byte("{mcpServers: {}, "+tt.text+"}"), env)
			problems, _ := err.(Problems) //nolint:errorlint // Parse returns no other type
			if tt.path == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if tt.name == "nothing" { // the key is missing, too
				problems = problems[:min(1, len(problems))]
			}
			if len(problems) != 1 || problems[0].Path != tt.path || !strings.Contains(problems[0].String(), tt.want) || problems[0].Line != 1 || problems[0].Column < 2 {
				t.Errorf("got %v (%+v), want one problem at %s: %s", err, problems, tt.path, tt.want)
			}
			if shown := fmt.Sprint(err); strings.Contains(shown, "hunter2") || strings.Contains(shown, "sesame") {
				t.Errorf("%v shows a secret", err)
			}
		})
	}
}

// What lets more in than it seems to is noted.
func TestNotesOnForms(t *testing.T) {
	for text, want := range map[string]string{
		`listen: "0.0.0.0:1", auth: {proxy: {from: [0.0.0.0/0], user: X-User}}`:                "anyone that reaches the listener can be any user",
		`listen: "0.0.0.0:1", auth: {proxy: {from: ["::/0"], user: X-User}}`:                   "anyone that reaches the listener can be any user",
		`auth: {proxy: {from: [127.0.0.1/32], user: X-User}}`:                                  "every program on this machine",
		`listen: "127.0.0.1:1", auth: {proxy: {from: [10.0.0.0/28], user: X-User}}`:            "no other reaches the listener on loopback",
		`publicURL: "http://localhost:1", tls: {certificate: a.crt, key: a.key}`:               "the listener has TLS",
		`listen: "0.0.0.0:1", auth: {proxy: {from: [10.0.0.0/28], user: X-User}}`:              "",
		`auth: {proxy: {from: [10.0.0.0/28], user: X-User}}, listen: "127.0.0.1:1", name: "x"`: "no other reaches the listener on loopback",
	} {
		c, err := Parse(filepath.Join(pemDir(t), "x.yaml"), []byte("{mcpServers: {}, "+text+"}"), nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if shown := fmt.Sprint(c.Notes); (want == "") != (len(c.Notes) == 0) || !strings.Contains(shown, want) {
			t.Errorf("%s: %s, want %s", text, shown, want)
		}
	}
}

// Each form permits a listener beyond loopback.
func TestFormsPermitPublicListener(t *testing.T) {
	dir := pemDir(t)
	for _, text := range []string{
		goodTLS + `, auth: {certificates: {principal: "cert.subject"}}`,
		`auth: {proxy: {from: [10.0.0.0/28], user: X-User}}`,
	} {
		if _, err := Parse(filepath.Join(dir, "x.yaml"), []byte(`{mcpServers: {}, listen: "0.0.0.0:1", `+text+"}"), nil); err != nil {
			t.Error(err)
		}
	}
	if _, err := Parse(filepath.Join(dir, "x.yaml"), []byte(`{mcpServers: {}, listen: "0.0.0.0:1", tls: {certificate: a.crt, key: a.key}}`), nil); err == nil {
		t.Error("TLS alone lets everybody in")
	}
}
