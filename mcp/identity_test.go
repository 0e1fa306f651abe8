// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

func TestTokenIsNotPrinted(t *testing.T) {
	const secret = "s3cret-token"
	id := mcp.Identity{Principal: "ann", Token: mcp.NewToken(secret)}
	if got := id.Token.Reveal(); got != secret {
		t.Errorf("Reveal() = %q", got)
	}
	if id.Token.IsZero() || !(mcp.Token{}).IsZero() {
		t.Error("IsZero is wrong")
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", slog.Any("identity", id), slog.Any("token", id.Token), slog.Any("pointer", &id))
	encoded, err := json.Marshal(id)
	if err != nil {
		t.Fatal(err)
	}
	type hidden struct{ id mcp.Identity }
	for _, text := range []string{
		log.String(), string(encoded), fmt.Sprint(id), fmt.Sprintf("%+v %#v %q %x %s %d", id, id, id.Token, id.Token, id.Token, id.Token),
		fmt.Sprintf("%v %+v %#v", hidden{id}, hidden{id}, hidden{id}),
	} {
		if strings.Contains(text, secret) || strings.Contains(text, fmt.Sprintf("%x", secret)) {
			t.Errorf("the token is in %s", text)
		}
	}
}
