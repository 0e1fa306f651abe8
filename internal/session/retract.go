// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"slices"
	"strings"
)

// Retract takes back the changes whose keys begin with the prefix and which no
// carrier has, because their receiver no longer wants to hear of them. It reports
// whether there were any. What a carrier has taken is on its way, and a receiver has
// to bear it; what it has given back is taken back from who begins anew, and who
// comes back for it gets what stood there.
func (s *Stream) Retract(prefix string) (found bool) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	unwanted := func(m *Message) bool { return m.Class == Change && strings.HasPrefix(m.Key, prefix) }
	for s.dropLocked(unwanted) {
		found = true // and there may be another
	}
	if s.log == nil {
		return found
	}
	given := len(s.log.unwritten)
	s.log.unwritten = slices.DeleteFunc(s.log.unwritten, func(m Message) bool { return unwanted(&m) })
	return found || len(s.log.unwritten) < given
}
