// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package target

import (
	"errors"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

func TestNoCallerAnswersNothing(t *testing.T) {
	t.Parallel()
	req, err := mcp.NewRequest("elicitation/create", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mcp.Ask(t.Context(), NoCaller{}, req); !errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}) {
		t.Errorf("got %v", err)
	}
	if err := (NoCaller{}).Notify(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
