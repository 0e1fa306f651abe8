// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"net/http"
	"sync"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/canary"
)

// secrets are the tokens that clients send.
var secrets struct {
	once sync.Once
	set  canary.Set
}

// watch returns a watch for the tokens of clients.
func watch(t *testing.T) *canary.Watch {
	secrets.once.Do(func() {
		secrets.set.Add(t, "token of a client", canary.Token)
		for _, token := range tokens {
			secrets.set.Add(t, "token of a principal", token)
		}
	})
	return secrets.set.Watch()
}

// authorized returns what serves the requests of clients. They have a token also if the gateway
// does not ask for one.
func (w *world) authorized(h http.Handler) http.Handler {
	if w.guarded {
		return h
	}
	return canary.Authorized(h)
}
