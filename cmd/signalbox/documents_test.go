// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/commandtest"
)

// TestDocumentedConfigs checks that the command check has no problem and no note for the
// configurations of a page. Those of a page about one key may leave the servers out.
func TestDocumentedConfigs(t *testing.T) {
	t.Parallel()
	const (
		servers = `mcpServers: {wiki: {url: "https://wiki.internal/mcp"}, jira: {url: "https://jira.internal/mcp"}, deploy: {url: "https://deploy.internal/mcp"}, llm: {url: "https://llm.internal/mcp"}}`
		keySet  = `{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}` // of RFC 8037
	)
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "identity.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```yaml\n")[1:]
	if len(blocks) == 0 {
		t.Error("the page has no configuration")
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		if strings.HasPrefix(block, "cases:") { // a file of the command policy test
			continue
		}
		e := commandtest.New(t, "")
		e.LookupEnv = func(name string) (string, bool) { return "sesame-of-" + name, strings.Contains(block, name) }
		if !strings.Contains(block, "\nmcpServers:") && !strings.HasPrefix(block, "mcpServers:") {
			block += servers + "\n"
		}
		for _, file := range regexp.MustCompile(`keys: (\S+\.json)`).FindAllStringSubmatch(block, -1) {
			commandtest.Write(t, filepath.Join(e.Dir, file[1]), keySet)
		}
		if strings.Contains(block, "tls.crt") {
			writeCertificate(t, e.Dir)
		}
		commandtest.Write(t, filepath.Join(e.Dir, "signalbox.yaml"), block)
		if code := runCommand(t.Context(), e, "check", "--strict", "signalbox.yaml"); code != exitOK {
			t.Errorf("%s\n%s%s", block, e.Out.String(), e.Err.String())
		}
	}
}

// writeCertificate writes the certificate of the TLS servers of httptest, its key and its
// authority, which is itself, under the names of the page.
func writeCertificate(t *testing.T, dir string) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	key, err := x509.MarshalPKCS8PrivateKey(s.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	commandtest.Write(t, filepath.Join(dir, "tls.crt"), string(certificate))
	commandtest.Write(t, filepath.Join(dir, "clients.pem"), string(certificate))
	commandtest.Write(t, filepath.Join(dir, "tls.key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
}

// TestDocumentedClientFiles checks that what the page about clients shows of their files is
// JSON.
func TestDocumentedClientFiles(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "clients.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "```json\n")[1:]
	if len(blocks) == 0 {
		t.Error("the page shows no file")
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		var file map[string]map[string]map[string]any // the only key, the entries, their members
		if err := json.Unmarshal([]byte(block), &file); err != nil || len(file) != 1 {
			t.Errorf("%s\n%v", block, err)
		}
	}
}
