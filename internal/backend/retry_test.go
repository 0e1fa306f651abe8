// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/logging/logtest"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A failure is logged when it begins and when its code changes, and otherwise once a
// minute with the number of those in between. The offer has the code.
func TestFailuresAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newToolServer(false, "a")
		s.failAll(&mcp.Fault{Reason: code.NetRefused, Message: "connection refused"})
		var log logtest.Log
		b, _ := follow(t, s, Config{Logger: slog.New(log.Handler())})
		seen := 0
		lines := func() []string { // those since the last call
			synctest.Wait()
			all := log.Lines()
			defer func() { seen = len(all) }()
			return all[seen:]
		}
		if got := lines(); len(got) != 1 || !strings.Contains(got[0], `state=down code=SB_NET_REFUSED err=`) {
			t.Errorf("first failure: %q", got)
		}
		time.Sleep(10 * time.Minute)
		got := lines()
		if len(got) < 5 || len(got) > 10 {
			t.Errorf("%d lines in ten minutes, want one a minute", len(got))
		}
		for _, line := range got {
			if !strings.Contains(line, "code=SB_NET_REFUSED") || !strings.Contains(line, "notLogged=") {
				t.Errorf("line %s", line)
			}
		}
		s.failAll(&mcp.Fault{Message: "initialize failed", Cause: &mcp.Fault{Reason: code.TalkSilent}})
		time.Sleep(maxRetryDelay)
		if got := lines(); len(got) == 0 || !strings.Contains(got[0], "code=SB_TALK_SILENT") {
			t.Errorf("another failure: %q", got)
		}
		if got := b.Offer().Code; got != code.TalkSilent {
			t.Errorf("code %q", got)
		}
	})
}

// A process that could not be started is tried again every ten seconds, and at once if
// that is requested. Other failures are tried again every thirty seconds.
func TestRetryOfFailedStarts(t *testing.T) {
	for reason, atMost := range map[string]time.Duration{code.StartNotFound: maxStartDelay, code.TalkExited: maxRetryDelay} {
		synctest.Test(t, func(t *testing.T) {
			s := newToolServer(false, "a")
			s.failAll(&mcp.Fault{Reason: reason, Message: "no"})
			b, _ := follow(t, s, Config{})
			time.Sleep(10 * time.Minute)
			s.failAll(nil)
			began := time.Now()
			for b.Offer().State != Live {
				time.Sleep(time.Second)
				synctest.Wait()
			}
			if took := time.Since(began); took > atMost+time.Second {
				t.Errorf("%s: live after %v, want %v", reason, took, atMost)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := newToolServer(false, "a")
		s.failAll(&mcp.Fault{Reason: code.StartNotFound, Message: "no"})
		b, _ := follow(t, s, Config{})
		time.Sleep(10 * time.Minute)
		s.failAll(nil)
		b.Retry()
		wantState(t, b, Live)
		if got := b.Offer(); got.Code != "" || got.Reason != "" {
			t.Errorf("live with %q %q", got.Code, got.Reason)
		}
		b.Retry() // without effect
	})
}
