// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"os"
	"strings"
	"testing"
)

// The size of a header is limited before it is processed.
func TestServeBoundsHeaders(t *testing.T) {
	t.Parallel()
	gw, err := startProcess(t.TempDir(), os.Environ(), "signalbox", "serve", "--demo", "--listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer gw.kill()
	match, err := gw.expect(`listening on (\S+)`)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{DisableKeepAlives: true}
	for _, tt := range []struct{ size, want int }{
		{60 << 10, http.StatusMethodNotAllowed}, // from the endpoint, so the header was accepted
		{80 << 10, http.StatusRequestHeaderFieldsTooLarge},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, match[1], http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Long", strings.Repeat("x", tt.size))
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != tt.want {
			t.Errorf("%d bytes: status %d, want %d", tt.size, resp.StatusCode, tt.want)
		}
	}
}
