// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

// Retract takes back a change of that key which no carrier has taken yet, because
// its receiver no longer wants to hear of it. It reports whether there was one. What
// a carrier has taken is on its way, and a receiver has to bear it.
func (s *Stream) Retract(key string) (found bool) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	for s.dropLocked(func(m *Message) bool { return m.Class == Change && m.Key == key }) {
		found = true // and of a session that has ended there may be another
	}
	return found
}
