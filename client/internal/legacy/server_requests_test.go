// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/jsonrpc"
)

func TestServerRequestsAreBounded(t *testing.T) {
	var a serverRequests
	cancelled := 0
	for i := range call.MaxServerRequests {
		if _, err := a.begin(jsonrpc.NumberID(uint64(i)), func() { cancelled++ }); err != nil {
			t.Fatal("refused within the bound")
		}
	}
	refused := func(id uint64) bool {
		_, err := a.begin(jsonrpc.NumberID(id), func() {})
		return err != nil
	}
	if !refused(99) {
		t.Error("one over the bound")
	}
	a.cancel(jsonrpc.NumberID(3))
	a.cancel(jsonrpc.NumberID(99))
	if cancelled != 1 || !refused(3) {
		t.Errorf("%d cancelled, or the id of an ask that has not ended is free", cancelled)
	}
	a.end(jsonrpc.NumberID(3))
	if !refused(3) {
		t.Error("one over the bound, while an answer is being sent")
	}
	a.release()
	if !refused(4) || refused(3) {
		t.Error("an id in use is free, or a free one in use")
	}
	a.cancel(jsonrpc.NumberID(5))
	if cancelled != 2 {
		t.Errorf("%d cancelled", cancelled)
	}
}
