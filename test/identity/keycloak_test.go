// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/test/browser"
	"github.com/signalbox-mcp/signalbox/test/foreign"
)

var useKeycloak = flag.Bool("keycloak", false, "also test with Keycloak, which takes Java 17, Maven, 180 MB and minutes")

// keycloakVersion is the pinned one.
const keycloakVersion = "26.7.3"

// audience is what Keycloak puts into tokens: it does not know RFC 8707.
const audience = "mcp-gateway"

// installKeycloak returns its folder. Downloads are in .cache.
func installKeycloak(t *testing.T) string {
	t.Helper()
	cache, err := filepath.Abs(".cache")
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(cache, "keycloak-"+keycloakVersion)
	if _, err := os.Stat(filepath.Join(home, "bin", "kc.sh")); err == nil {
		return home
	}
	out, errs, err := foreign.Output(t.Context(), nil, nil, "mvn", "--quiet", "--batch-mode", "-Dmaven.repo.local="+filepath.Join(cache, "m2"),
		"dependency:copy", "-Dartifact=org.keycloak:keycloak-quarkus-dist:"+keycloakVersion+":zip", "-DoutputDirectory="+cache)
	if err != nil {
		t.Fatalf("mvn: %v\n%s%s", err, out, errs)
	}
	if err := unzip(filepath.Join(cache, "keycloak-quarkus-dist-"+keycloakVersion+".zip"), cache); err != nil {
		t.Fatal(err)
	}
	return home
}

// unzip extracts the files of an archive.
func unzip(name, into string) error {
	r, err := zip.OpenReader(name)
	if err != nil {
		return err
	}
	defer r.Close()
	return os.CopyFS(into, r)
}

// mapper is a protocol mapper of a client.
func mapper(name, kind string, config object) object {
	return object{"name": name, "protocol": "openid-connect", "protocolMapper": kind, "config": config}
}

// realm is a realm with the user ann of the group staff, and a client for everybody.
func realm(string) object {
	return object{
		"realm": "corp", "enabled": true, "sslRequired": "none", "groups": []object{{"name": "staff"}},
		"users": []object{{
			"username": "ann", "enabled": true, "email": "ann@example.com", "emailVerified": true, "firstName": "Ann", "lastName": "Lee",
			"credentials": []object{{"type": "password", "value": "ann", "temporary": false}}, "groups": []string{"/staff"},
		}},
		"clients": []object{{
			"clientId": "app", "publicClient": true, "enabled": true, "standardFlowEnabled": true, "redirectUris": []string{redirect},
			"attributes": object{"pkce.code.challenge.method": "S256"},
			"protocolMappers": []object{
				mapper("audience", "oidc-audience-mapper", object{"included.custom.audience": audience, "access.token.claim": "true"}),
				mapper("groups", "oidc-group-membership-mapper", object{"claim.name": "groups", "full.path": "false", "access.token.claim": "true"}),
			},
		}},
	}
}

// startKeycloak starts it with realms, which are given its URL, and returns the URL of its realms.
func startKeycloak(t *testing.T, features string, realms ...func(base string) object) string {
	t.Helper()
	home, at := installKeycloak(t), foreign.FreeAddress(t)
	base := "http://" + at + "/realms/"
	imports := filepath.Join(home, "data", "import")
	if err := errors.Join(os.RemoveAll(imports), os.MkdirAll(imports, 0o700)); err != nil { // those of an earlier test
		t.Fatal(err)
	}
	names := make([]string, len(realms))
	for i, make := range realms {
		realm := make(base)
		text, err := json.Marshal(realm)
		if err != nil {
			t.Fatal(err)
		}
		names[i] = realm["realm"].(string)
		if err := os.WriteFile(filepath.Join(imports, names[i]+".json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, port, _ := strings.Cut(at, ":")
	args := []string{filepath.Join(home, "bin", "kc.sh"), "start-dev", "--db=dev-mem", "--cache=local",
		"--http-host=127.0.0.1", "--http-port=" + port, "--hostname=http://" + at, "--import-realm"}
	if features != "" {
		args = append(args, "--features="+features)
	}
	foreign.StartAt(t, at, "sh", args...)
	for _, name := range names {
		awaitOK(t, base+name+"/.well-known/openid-configuration")
	}
	return base
}

// awaitOK polls an address until it is there.
func awaitOK(t *testing.T, address string) {
	t.Helper()
	for {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, res.Body) // only the status counts
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-time.After(time.Second):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// takesKeycloak reports whether tests with Keycloak run.
func takesKeycloak(t *testing.T) bool {
	t.Helper()
	if !*useKeycloak {
		t.Log("only with -keycloak")
		return false
	}
	if lacks := foreign.LacksJava(t); lacks != "" {
		t.Fatal(lacks)
	}
	return true
}

// A user signs in at Keycloak, on its pages, by our client and through the metadata of the
// gateway, which takes the token (identity I2).
func TestKeycloak(t *testing.T) {
	if !takesKeycloak(t) {
		return
	}
	corp := object{"name": "corp", "issuer": startKeycloak(t, "", realm) + "corp", "audience": []string{audience}, "principal": "claims.preferred_username"}
	g := startGateway(t, trusting(corp))
	given := &oauth.Registration{ClientID: "app", Method: oauth.MethodNone, Source: oauth.SourceGiven}
	a := signInWith(t.Context(), t, g.URL, browser.New("ann"), oauth.RegistrationOptions{Given: given})
	got := g.with(t, a.tokens.Access.Reveal())
	if got.status != http.StatusOK {
		t.Fatalf("got %d %s %s", got.status, got.challenge, got.body)
	}
	if got := g.with(t, flip(a.tokens.Access.Reveal())); got.status != http.StatusUnauthorized {
		t.Errorf("changed: got %d", got.status)
	}
	if claims := decode(t, a.tokens.Access.Reveal(), 1); claims["aud"] != audience {
		t.Errorf("the audience is %v", claims["aud"])
	}
}
