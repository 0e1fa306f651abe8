// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/zoo"
)

// A request that belongs to no session borrows a process, which is ended when
// the request is given up. The server hears of that before its pipe closes.
func TestCancelledBeforeThePipeCloses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := &zoo.Lines{On: map[string]func(*zoo.Line){"tools/call": func(*zoo.Line) {}}}
		c, _ := dialLines(t, s, client.Config{})
		call := launch(t, c, echo(t), &recorder{})
		synctest.Wait()
		call.cancel()
		synctest.Wait()
		if n := s.Count("notifications/cancelled"); n != 1 {
			t.Errorf("%d cancellations, want 1", n)
		}
	})
}
