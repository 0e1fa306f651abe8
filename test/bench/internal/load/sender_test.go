// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package load_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/load"
)

// Each request has another key id, and the claims and the signature of the token. Only a 401 is
// no error.
func TestSender(t *testing.T) {
	ids := make(map[string]bool)
	status := http.StatusUnauthorized
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head, rest, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), ".")
		plain, err := base64.RawURLEncoding.DecodeString(head)
		_, id, _ := strings.Cut(string(plain), `"kid":"`)
		if err != nil || rest != "claims.signature" || len(id) != len(`0123456789abcdef"}`) {
			t.Errorf("header %s, rest %s, error %v", plain, rest, err)
		}
		ids[id] = true
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
		_, _ = w.Write([]byte("{}"))
	}))
	defer s.Close()
	one, err := load.NewSender(t.Context(), load.Target{URL: s.URL + "/mcp", Era: canned.Modern}, "e30.claims.signature")
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	const n = 20
	for range n {
		if err := one.Refused(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(ids) != n {
		t.Errorf("%d key ids in %d requests", len(ids), n)
	}
	status = http.StatusOK
	if err := one.Refused(t.Context()); err == nil {
		t.Error("a token that is accepted is no error")
	}
}
