// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"log/slog"
)

// RereadAccess reads the access of users again that is in memory, because another process has changed
// it: a user has signed in or out with a command. Calls that wait for the sign-in go on, and users get
// the lists that their access is for now. Without it the gateway finds the change within some seconds.
func (g *Gateway) RereadAccess(ctx context.Context) {
	for _, b := range g.view.Load().backends {
		if users, ok := b.access.(*userCredentials); ok {
			users.reread(ctx)
		}
		if b.users != nil {
			for _, u := range g.userLists.everybody() {
				u.check(ctx, b, accessFor) // what is in memory was just read
			}
		}
	}
}

// reread reads the grants in memory again.
func (c *userCredentials) reread(ctx context.Context) {
	c.mu.Lock()
	source := c.source
	c.mu.Unlock()
	if source == nil {
		return
	}
	if err := source.Reread(ctx); err != nil && ctx.Err() == nil {
		c.g.log.LogAttrs(ctx, slog.LevelWarn, "the grants of users cannot be read", slog.String("backend", c.srv.Name), slog.Any("err", err))
	}
}
