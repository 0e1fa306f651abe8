// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan/jsontest"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// I4: "0, "" and large numbers are ids; "1" differs from 1".
func TestIDsAsKeys(t *testing.T) {
	long := strings.Repeat("x", 40)
	ids := map[mcp.ID]int{
		NumberID(0): 0, NumberID(1): 1, NumberID(1<<64 - 1): 2,
		StringID(""): 3, StringID("0"): 4, StringID("1"): 5, StringID(long): 6, StringID(long + "x"): 7, {}: 8,
	}
	for token, want := range map[string]int{
		"0": 0, "1": 1, "18446744073709551615": 2,
		`""`: 3, `"0"`: 4, `"1"`: 5, `"` + long + `"`: 6, `"` + long + `x"`: 7,
	} {
		id, err := mcp.ParseID([]byte(token))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := ids[id]; !ok || got != want {
			t.Errorf("%s: entry %d (found %v), want %d", token, got, ok, want)
		}
	}
	if len(ids) != 9 {
		t.Errorf("%d entries, want 9", len(ids))
	}
	if got := (mcp.ID{}).String(); got != "" || !(mcp.ID{}).IsZero() {
		t.Errorf("the zero ID is %q", got)
	}
	if got := StringID("a\"\n").String(); got != `"a\"\n"` {
		t.Errorf("StringID: %s", got)
	}
}

func randomID(r *rand.Rand) mcp.ID {
	switch r.IntN(4) {
	case 0:
		return NumberID(r.Uint64() >> r.IntN(64))
	case 1:
		return StringID(strings.Repeat("x", r.IntN(60)))
	case 2:
		id, err := mcp.ParseID([]byte(jsontest.EscapedText(r, jsontest.RandomText(r))))
		if err != nil {
			return NumberID(1)
		}
		return id
	default:
		id, err := mcp.ParseID([]byte("-" + strings.Repeat("9", 1+r.IntN(40))))
		if err != nil {
			return NumberID(2)
		}
		return id
	}
}

// An id passes through a request, its result and its error, and is the same token at
// the end (J5: "the same ID as the request they correspond to").
func TestIDRoundTrip(t *testing.T) {
	r := jsontest.Seeded(2)
	for range 2_000 {
		id := randomID(r)
		asked, err := mcp.Parse(AppendRequest(nil, id, "ping", nil), mcp.Limits{})
		if err != nil || asked.ID != id {
			t.Fatalf("%s came as %s, %v", id, asked.ID, err)
		}
		for _, answer := range [][]byte{AppendResult(nil, asked.ID, nil), AppendError(nil, asked.ID, mcp.Errorf(1, "%s", jsontest.RandomText(r)))} {
			m, err := mcp.Parse(answer, mcp.Limits{})
			if err != nil || m.ID != id || m.ID.String() != id.String() {
				t.Fatalf("%s came back in %s as %s, %v", id, answer, m.ID, err)
			}
		}
	}
}

// Two ids are equal exactly if their tokens are: "a" and "\u0061" are two ids, because
// a peer may distinguish them (I4).
func TestIDsEqualByToken(t *testing.T) {
	r := jsontest.Seeded(3)
	byToken := map[string]mcp.ID{}
	for range 1_500 {
		id := randomID(r)
		if old, ok := byToken[id.String()]; ok && old != id {
			t.Fatalf("two ids for the token %s", id)
		}
		byToken[id.String()] = id
	}
	ids := map[mcp.ID]string{}
	for token, id := range byToken {
		if other, ok := ids[id]; ok {
			t.Fatalf("one id for %s and %s", token, other)
		}
		ids[id] = token
	}
}
