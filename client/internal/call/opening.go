// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Opening is when a connection was opened, for the timelines of the requests that waited
// for it.
type Opening struct {
	Start     time.Time // of the process; zero if there is none
	Began     time.Time // when a package manager began the server's own program; zero if that is not known
	Responded time.Time // when the process wrote something; without one, when the handshake began
	Ready     time.Time // zero means that nothing is known
}

// Note records on the timeline of a request how much of the opening it waited for.
func (o *Opening) Note(t *mcp.Timeline) {
	if t != nil && !o.Ready.IsZero() {
		t.NoteOpening(o.Start, o.Began, o.Responded, o.Ready)
	}
}
