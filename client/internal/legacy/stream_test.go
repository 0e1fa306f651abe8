// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/httpconn"
)

func TestResumeLimiter(t *testing.T) {
	const ok, unset, never = http.StatusOK, time.Duration(-1), 0
	broke := errors.New("broke")
	stream := func(err error, retry, lasted time.Duration, messages, ids int) attempt {
		return attempt{
			status: ok, err: err, lasted: lasted, before: httpconn.Cursor{Retry: unset},
			after: httpconn.Cursor{Retry: retry, Messages: messages, IDs: ids},
		}
	}
	refused := func(status int) attempt {
		return attempt{status: status, err: broke, before: httpconn.Cursor{Retry: unset}, after: httpconn.Cursor{Retry: unset}}
	}
	for _, tt := range []struct {
		name      string
		listening bool
		attempt   attempt
		exhausted int // after so many
		delays    []time.Duration
	}{
		{"a message", false, stream(broke, unset, 0, 1, 0), never, []time.Duration{time.Second, time.Second}},
		{"nothing", false, stream(nil, unset, 0, 0, 0), 5, []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second}},
		{"nothing on the session's stream", true, stream(nil, unset, 0, 0, 0), 5, []time.Duration{2 * time.Second, 4 * time.Second}},
		{"an event id", false, stream(nil, unset, 0, 0, 1), never, []time.Duration{2 * time.Second, 4 * time.Second}},
		{"a poll", false, stream(nil, 3*time.Second, 0, 0, 0), never, []time.Duration{3 * time.Second, 3 * time.Second}},
		{"a poll that breaks", false, stream(broke, 3*time.Second, 0, 0, 0), 5, []time.Duration{6 * time.Second, 12 * time.Second}},
		{"a poll that is too quick", false, stream(nil, 100*time.Millisecond, 0, 0, 0), never, []time.Duration{200 * time.Millisecond, 400 * time.Millisecond}},
		{"a poll that lasts", false, stream(nil, 100*time.Millisecond, time.Second, 0, 0), never, []time.Duration{100 * time.Millisecond, 100 * time.Millisecond}},
		{"a refusal that may pass", false, refused(http.StatusServiceUnavailable), never, []time.Duration{2 * time.Second, 4 * time.Second}},
		{"a refusal", true, refused(http.StatusForbidden), 5, []time.Duration{2 * time.Second, 4 * time.Second}},
		{"no answer to a call", false, refused(0), 5, []time.Duration{2 * time.Second, 4 * time.Second}},
		{"no answer to a session", true, refused(0), never, []time.Duration{2 * time.Second, 4 * time.Second}},
		{"a call's stream that lasted", false, stream(broke, unset, stableAfter, 0, 0), 5, []time.Duration{2 * time.Second, 4 * time.Second}},
		{"the session's stream that lasted", true, stream(broke, unset, stableAfter, 0, 0), never, []time.Duration{time.Second, time.Second}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			limiter := resumeLimiter{listening: tt.listening}
			exhausted := never
			for n := 1; n <= 20 && exhausted == never; n++ {
				limiter.record(&tt.attempt)
				if limiter.exhausted() {
					exhausted = n
				}
				if n <= len(tt.delays) && limiter.delay(&tt.attempt.after) != tt.delays[n-1] {
					t.Errorf("attempt %d: the next one after %v, want %v", n, limiter.delay(&tt.attempt.after), tt.delays[n-1])
				}
			}
			if exhausted != tt.exhausted {
				t.Errorf("exhausted after %d attempts, want %d", exhausted, tt.exhausted)
			}
		})
	}
}

func TestResumeLimiterStartsAfreshAfterAMessage(t *testing.T) {
	var limiter resumeLimiter
	empty := attempt{status: http.StatusOK, before: httpconn.Cursor{Retry: -1}, after: httpconn.Cursor{Retry: -1}}
	message := empty
	message.after.Messages = 1
	for _, a := range []attempt{empty, empty, empty, empty, message, empty, empty, empty, empty} {
		limiter.record(&a)
		if limiter.exhausted() {
			t.Fatal("exhausted, though there was a message in between")
		}
	}
	limiter.record(&empty)
	if !limiter.exhausted() {
		t.Error("not exhausted after five empty attempts in a row")
	}
}
