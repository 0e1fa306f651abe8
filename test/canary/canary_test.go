// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package canary_test

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/canary"
)

const (
	secret = "s3cret/of+Ann:0123456789"
	jwt    = "eyJhbGciOiJFUzI1NiIsImtpZCI6ImEifQ.eyJzdWIiOiJhbm4iLCJqdGkiOiI4MjM0NSJ9.c2lnbmF0dXJlLXNpZ25hdHVyZS1zaWc"
)

func TestScan(t *testing.T) {
	var s canary.Set
	s.Add(t, "ann", secret)
	s.Add(t, "token", jwt)
	parts := strings.Split(jwt, ".")
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "level=INFO msg=ready", ""},
		{"empty", "", ""},
		{"whole", "Authorization: Bearer " + secret + "\n", "ann"},
		{"a part", "token=..." + secret[5:21] + "...", "ann"},
		{"less than a part", secret[:15], ""},
		{"escaped", "GET /?t=" + url.QueryEscape(secret), "ann"},
		{"hexadecimal", hex.EncodeToString([]byte("id " + secret)), "ann"},
		{"base64", base64.StdEncoding.EncodeToString([]byte(secret)), "ann"},
		{"base64, shifted by one", base64.StdEncoding.EncodeToString([]byte("a" + secret)), "ann"},
		{"base64, shifted by two", base64.URLEncoding.EncodeToString([]byte("ab" + secret + "c")), "ann"},
		{"a user and password", base64.StdEncoding.EncodeToString([]byte("client:" + secret)), "ann"},
		{"the header of a token", parts[0] + ".", ""},
		{"its payload", parts[1], "token"},
		{"a part of its payload", parts[1][:30], ""},
		{"its signature", parts[2], "token"},
	} {
		var got string
		for _, leak := range s.Scan("log", tt.text) {
			got += leak.Secret
			if strings.Contains(leak.Around, tt.text) {
				t.Errorf("%s: the report quotes it: %s", tt.name, leak)
			}
		}
		if got != tt.want {
			t.Errorf("%s: found %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestScanReader(t *testing.T) {
	var s canary.Set
	s.Add(t, "ann", secret)
	leaks, err := s.ScanReader("stderr", strings.NewReader("one\ntwo "+secret+"\n"))
	if err != nil || len(leaks) != 1 {
		t.Fatalf("got %v, %v", leaks, err)
	}
	if got, want := leaks[0].String(), `stderr: the secret ann after "one\ntwo "`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// recorder is the test of a test: it records that it was failed.
type recorder struct {
	testing.TB

	failed bool
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(string, ...any) {
	r.failed = true
	runtime.Goexit()
}

func TestShortSecret(t *testing.T) {
	r := &recorder{TB: t}
	var wg sync.WaitGroup
	wg.Go(func() { new(canary.Set).Add(r, "short", "abc") })
	wg.Wait()
	if !r.failed {
		t.Error("a secret of three letters is accepted")
	}
}

func TestScanFiles(t *testing.T) {
	var s canary.Set
	s.Add(t, "ann", secret)
	folder := t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "a", "b", "log")
	for path, text := range map[string]string{file: "one " + secret, filepath.Join(folder, "two"): "two"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{folder, file} {
		if got, err := s.ScanFiles(path); err != nil || len(got) != 1 || got[0].Where != file {
			t.Errorf("%s: got %v, %v", path, got, err)
		}
	}
	if got, err := s.ScanFiles(filepath.Join(folder, "none")); err != nil || len(got) > 0 {
		t.Errorf("got %v, %v", got, err)
	}
}
