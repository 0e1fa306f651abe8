// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// sessionIdentity is the identity of the latest HTTP request of a session. The listens of the session
// are for it: they end when its credentials do, and begin again with those of the next request. The
// zero value is ready.
type sessionIdentity struct {
	mu      sync.Mutex
	latest  *mcp.Identity             // nil before the first one
	renewed chan struct{}             // closed when there is another one; nil while none waits
	timer   *time.Timer               // ends the listens with the credentials; nil before the first one
	listens map[*identityUse]struct{} // that run
}

// identityUse is a listen of a session.
type identityUse struct{ cancel context.CancelCauseFunc }

// sessionIdentityKey is the key of a sessionIdentity in the scope of its session.
type sessionIdentityKey struct{}

func sessionIdentityOf(scope *mcp.Scope) *sessionIdentity {
	kept, _ := scope.Value(sessionIdentityKey{}, func() any { return new(sessionIdentity) })
	k, _ := kept.(*sessionIdentity)
	return k // nil if the session has ended
}

// noteIdentity notes the identity of a request of a session.
func noteIdentity(sess *session.Session, id *mcp.Identity) {
	if id == nil {
		return
	}
	if k := sessionIdentityOf(sess.Scope); k != nil {
		k.set(id)
	}
}

func (k *sessionIdentity) set(id *mcp.Identity) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.latest == id {
		return
	}
	k.latest = id
	if k.renewed != nil {
		close(k.renewed)
		k.renewed = nil
	}
	k.scheduleLocked()
}

// hasEnded reports whether the credentials of an identity have ended.
func hasEnded(id *mcp.Identity) bool {
	return id != nil && !id.Expires.IsZero() && !time.Now().Before(id.Expires)
}

// scheduleLocked makes the listens end with the credentials.
func (k *sessionIdentity) scheduleLocked() {
	stopTimer(k.timer)
	if len(k.listens) > 0 {
		k.timer = atExpiry(k.latest, k.expire)
	}
}

// expire ends the listens, unless there are other credentials meanwhile.
func (k *sessionIdentity) expire() {
	for _, use := range k.expired() {
		use.cancel(errExpired) // outside the lock: it may run code of others
	}
}

// expired returns the listens, if the credentials have ended.
func (k *sessionIdentity) expired() []*identityUse {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !hasEnded(k.latest) {
		return nil
	}
	return slices.Collect(maps.Keys(k.listens))
}

// begin adds a listen and returns the identity that it is for, nil if none is known. If the
// credentials have ended it adds nothing, and returns a channel that is closed when there are others.
func (k *sessionIdentity) begin(use *identityUse) (id *mcp.Identity, renewed <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if hasEnded(k.latest) {
		if k.renewed == nil {
			k.renewed = make(chan struct{})
		}
		return nil, k.renewed
	}
	if k.listens == nil {
		k.listens = make(map[*identityUse]struct{})
	}
	if k.listens[use] = struct{}{}; len(k.listens) == 1 {
		k.scheduleLocked()
	}
	return k.latest, nil
}

func (k *sessionIdentity) end(use *identityUse) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if delete(k.listens, use); len(k.listens) == 0 {
		k.scheduleLocked()
	}
}

// listenAs calls listen with the identity of the latest request of a session. If its credentials have
// ended, it waits for a request with others. The context of the listen ends with them, and listenAs
// reports whether it has. identity is that of the request which has caused the listen: it is used
// where the connection of the session ends with the credentials.
func listenAs(ctx context.Context, sess *session.Session, identity *mcp.Identity, listen func(context.Context, *mcp.Identity)) (expired bool) {
	k := sessionIdentityOf(sess.Scope)
	if k == nil {
		return false // the session has ended, and so does ctx
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	use := &identityUse{cancel}
	id, renewed := k.begin(use)
	for renewed != nil {
		select {
		case <-renewed:
		case <-ctx.Done():
			return false
		}
		id, renewed = k.begin(use)
	}
	defer k.end(use)
	if id == nil {
		id = identity
	}
	listen(ctx, id)
	return errors.Is(context.Cause(ctx), errExpired)
}
