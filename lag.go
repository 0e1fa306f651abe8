// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"fmt"
	"log/slog"
	"time"
)

// lagCure is the advice for a gateway that cannot keep up.
const lagCure = "give it more processor time and memory, or fewer clients (limits.sessions)"

// noteLag records how late a timer fired.
func (g *Gateway) noteLag(late time.Duration) {
	if g.lag.Note(late) {
		g.log.Warn("the gateway cannot keep up: its timers fire late", slog.Duration("late", late.Round(time.Millisecond)), slog.String("cure", lagCure))
	}
}

// lagProblem returns the problem of a gateway that cannot keep up, or nil.
func (g *Gateway) lagProblem() []string {
	worst, is := g.lag.Worst()
	if !is {
		return nil
	}
	return []string{fmt.Sprintf("the gateway cannot keep up: its timers fired up to %v late within the last minute; %s", worst.Round(time.Millisecond), lagCure)}
}
