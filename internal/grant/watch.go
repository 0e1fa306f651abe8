// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"log/slog"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backoff"
)

// Watch returns a channel that is closed when the grant of a principal appears, changes or ends:
// at once for a change by this Source and after Reread, and within about a second for one by another
// process, for which the vault is read while there is a watch. The channel is left open when ctx or the Source
// ends. A caller that waits for a sign-in takes the channel first, and then calls Check, so that
// it does not miss one.
func (s *Source) Watch(ctx context.Context, principal string) <-chan struct{} {
	c := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || ctx.Err() != nil {
		return c
	}
	h := s.holderLocked(principal)
	if h.watchers == nil {
		h.watchers = make(map[chan struct{}]bool)
		s.watched++
		if !s.polling {
			s.polling = true
			s.wg.Go(s.poll) // ends with the last watch, and with Close, which waits for it
		}
	}
	h.watchers[c] = true
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if h.watchers[c] {
			delete(h.watchers, c)
			if len(h.watchers) == 0 {
				h.watchers = nil
				s.watched--
			}
		}
	})
	return c
}

// pollInterval is the time between two reads of the grants that are watched.
const pollInterval = 500 * time.Millisecond

// poll reads the grants that are watched, and ends when there are no more watches. It reads for a
// tenth of the time at most.
func (s *Source) poll() {
	for wait := pollInterval; backoff.Sleep(s.ctx, wait); {
		began := time.Now()
		principals := s.watchedPrincipals()
		if len(principals) == 0 {
			return
		}
		for _, principal := range principals {
			if err := s.look(s.ctx, principal); err != nil && s.ctx.Err() == nil {
				s.cfg.Logger.WarnContext(s.ctx, "the grants of a principal cannot be read while it signs in",
					slog.String("backend", s.cfg.Backend), slog.Any("error", err))
			}
		}
		wait = pollInterval + 9*time.Since(began)
	}
}

// watchedPrincipals returns those with a watch. Without any, poll ends.
func (s *Source) watchedPrincipals() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watched == 0 {
		s.polling = false
		return nil
	}
	var principals []string
	for principal, h := range s.holders {
		if len(h.watchers) > 0 {
			principals = append(principals, principal)
		}
	}
	return principals
}
