// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"strings"
)

// Retract removes the queued changes with keys that begin with the prefix, because their
// receiver no longer wants them. It reports whether there were any. Changes that a consumer
// has taken are delivered. Of changes that were requeued, only a client that begins anew no
// longer gets them: a client that resumes gets the messages that were there.
func (s *Stream) Retract(prefix string) (found bool) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	unwanted := func(m *Message) bool { return m.Class == Change && strings.HasPrefix(m.Key, prefix) }
	for s.dropLocked(unwanted) {
		found = true // and there may be more
	}
	if s.log == nil {
		return found
	}
	given := len(s.log.unwritten)
	s.log.unwritten = slices.DeleteFunc(s.log.unwritten, func(m Message) bool { return unwanted(&m) })
	return found || len(s.log.unwritten) < given
}
