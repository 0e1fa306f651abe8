// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package confirm

import (
	"bytes"
	"crypto/rand"
	"sync"
	"time"
)

// maxAgreed bounds the calls that are known. One that is forgotten is asked about again.
const maxAgreed = 4096

// mark begins a state of Agreed. Other states are texts without control characters.
const mark = "\x00confirm"

// lenToken is the length of a rand.Text.
const lenToken = 26

// Agreed are the calls that a user has agreed to and that go on in another request. Each may go on
// once. Its methods may be called concurrently, and the zero value is empty.
type Agreed struct {
	mu    sync.Mutex
	calls map[string]agreement // by token
	order []string             // the tokens, the oldest first, also of calls that went on
}

type agreement struct {
	rule  string
	until time.Time
}

// A State is a call that goes on.
type State struct {
	// Rest is the state of what the call waits for.
	Rest []byte

	// OfServer reports whether that is the requestState of the server, in JSON, or empty if it
	// has none.
	OfServer bool

	token string
}

// Keep returns the state of a call that may go on without another question of the rule, until the
// given time. Only the edge may give it to the client, sealed for its sender and its parameters.
func (a *Agreed) Keep(rule string, until time.Time, rest []byte, ofServer bool) []byte {
	token := rand.Text()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls == nil {
		a.calls = make(map[string]agreement)
	}
	if len(a.order) == maxAgreed {
		delete(a.calls, a.order[0])
		a.order = a.order[1:]
	}
	a.calls[token] = agreement{rule, until}
	a.order = append(a.order, token)
	kind := byte('h')
	if ofServer {
		kind = 's'
	}
	return append(append(append([]byte(mark), kind), token...), rest...)
}

// IsState reports whether a state is one of Keep.
func IsState(state []byte) bool { return bytes.HasPrefix(state, []byte(mark)) }

// Open returns a state of Keep.
func Open(state []byte) (s State, ok bool) {
	rest, ok := bytes.CutPrefix(state, []byte(mark))
	if !ok || len(rest) < 1+lenToken {
		return State{}, false
	}
	return State{OfServer: rest[0] == 's', token: string(rest[1 : 1+lenToken]), Rest: rest[1+lenToken:]}, true
}

// Take reports whether a call may go on without a question of the rule. It does so once.
func (a *Agreed) Take(s *State, rule string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	given, ok := a.calls[s.token]
	delete(a.calls, s.token)
	return ok && given.rule == rule && time.Now().Before(given.until)
}
