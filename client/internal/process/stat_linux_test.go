// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"strings"
	"testing"
)

func TestParseStat(t *testing.T) {
	const rest = " S 7 42 9 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 100 1000000 250 18446744073709551615 1 1"
	for _, name := range []string{"(sh)", "(a b)", "(x) S 1 (y))", "()"} {
		want := stat{pid: 12, parent: 7, group: 42, name: strings.TrimSuffix(name[1:], ")"), began: 100, pages: 250}
		if s, ok := parseStat([]byte("12 " + name + rest)); s != want || !ok {
			t.Errorf("%s: %+v, %v", name, s, ok)
		}
	}
	if s, ok := parseStat([]byte("12 (sh)" + strings.Replace(rest, " S ", " Z ", 1))); !ok || !s.ended {
		t.Errorf("a process that has ended: %+v, %v", s, ok)
	}
	for _, raw := range []string{"", "12 (sh) S 7 42", "12 (sh) S 7 x 9 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 100 1000000 250 18446744073709551615"} {
		if s, ok := parseStat([]byte(raw)); ok {
			t.Errorf("%q: %+v", raw, s)
		}
	}
}
