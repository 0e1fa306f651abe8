// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"
	"time"
)

// identity attack 9: the time of the comparison does not depend on which token is sent, whether there
// is such a token, and how much of a digest agrees.
//
// An end at the first match, or at the first byte that differs, would make two of these cases differ
// by far more than a factor of two. They are measured in turns, by their medians.
func TestTokensAreComparedInConstantTime(t *testing.T) {
	const tokens, rounds = 2000, 201
	var known staticTokens
	for i := range tokens {
		known = append(known, staticToken{sum: sha256.Sum256(fmt.Append(nil, i))})
	}
	near := known[tokens/2].sum
	near[len(near)-1] ^= 1
	cases := []struct {
		name string
		sum  digest
		is   *staticToken
	}{
		{"first", known[0].sum, &known[0]}, {"last", known[tokens-1].sum, &known[tokens-1]},
		{"unknown", sha256.Sum256([]byte("unknown")), nil}, {"nearly one", near, nil},
	}
	times := make([][]time.Duration, len(cases))
	for range rounds {
		for i := range cases {
			began := time.Now()
			found := known.find(&cases[i].sum)
			times[i] = append(times[i], time.Since(began))
			if found != cases[i].is {
				t.Fatalf("%s: found %v", cases[i].name, found)
			}
		}
	}
	var medians []time.Duration
	for i := range times {
		slices.Sort(times[i])
		medians = append(medians, times[i][rounds/2])
	}
	if slices.Max(medians) > 2*slices.Min(medians) {
		t.Errorf("the medians of first, last, unknown and nearly one: %v", medians)
	}
}
