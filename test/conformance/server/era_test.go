// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestOnly passes the clients of one era, and those with an unknown version to the handler
// that can reject it.
func TestOnly(t *testing.T) {
	for _, tt := range []struct {
		era, version string
		want         int
	}{
		{"", "2026-07-28", http.StatusOK}, {"", "", http.StatusOK},
		{"legacy", "", http.StatusOK}, {"legacy", "2025-11-25", http.StatusOK}, {"legacy", "2026-07-28", http.StatusBadRequest},
		{"modern", "2026-07-28", http.StatusOK}, {"modern", "2099-01-01", http.StatusOK},
		{"modern", "", http.StatusBadRequest}, {"modern", "2025-06-18", http.StatusBadRequest},
	} {
		h, err := only(tt.era, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", nil)
		if tt.version != "" {
			r.Header.Set("Mcp-Protocol-Version", tt.version)
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != tt.want {
			t.Errorf("era %q, version %q: got %d, want %d", tt.era, tt.version, w.Code, tt.want)
		}
	}
	if _, err := only("stone", nil); err == nil {
		t.Error("an unknown era is taken")
	}
}
