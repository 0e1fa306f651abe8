// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
)

// A gateway with timers that fire late repeatedly reports it in its status and once in
// its log, until it keeps up again (fault 113).
func TestGatewayReportsThatItCannotKeepUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		g, err := New(config.Config{}, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		for late := range 5 {
			if p := g.Status().Problems; len(p) != 0 && late < 3 {
				t.Errorf("problems after %d seconds in which timers were late: %q", late, p)
			}
			g.noteLag(1200 * time.Millisecond)
			time.Sleep(time.Second)
		}
		want := []string{"the gateway cannot keep up: its timers fired up to 1.2s late within the last minute; give it more processor time and memory, or fewer clients (limits.sessions)"}
		if got := g.Status().Problems; !slices.Equal(got, want) {
			t.Errorf("problems %q, want %q", got, want)
		}
		time.Sleep(time.Minute)
		if got := g.Status().Problems; len(got) != 0 {
			t.Errorf("a minute later: %q", got)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "level=WARN msg=\"the gateway cannot keep up: its timers fire late\" late=1.2s"); n != 1 {
			t.Errorf("logged %d times, want once: %s", n, log.String())
		}
	})
}
