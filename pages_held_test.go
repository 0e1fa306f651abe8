// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"fmt"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/pins"
)

// A server that names other pages each time does not fill the memory with those that were held.
func TestHeldPagesAreBounded(t *testing.T) {
	var p pinsInUse
	for i := range 3 * maxHeldPages {
		p.noteHeld(pins.Key{Server: "s", Kind: pins.Page, Name: fmt.Sprint("ui://", i)}, "it is not approved yet")
	}
	if n := len(p.heldPages()); n == 0 || n > maxHeldPages {
		t.Errorf("%d pages are known to be held, want 1 to %d", n, maxHeldPages)
	}
}
