// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import "testing"

func TestTable(t *testing.T) {
	table := &Table{Title: "Calls", Before: "What they cost.", Header: []string{"what", "cost"}}
	table.Add("a|b", "1")
	table.Remark("so many: %d", 2)
	table.Remark("so many: %d", 2)
	want := "### Calls\n\nWhat they cost.\n\n| what | cost |\n|---|---:|\n| a\\|b | 1 |\n\n- so many: 2\n"
	if got := table.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPut(t *testing.T) {
	page := "# P\n<!-- begin a -->\nold\n<!-- end -->\nbetween\n<!-- begin b -->\n<!-- end -->\n"
	got, err := Put(page, "a", "new\n\n")
	if want := "# P\n<!-- begin a -->\nnew\n<!-- end -->\nbetween\n<!-- begin b -->\n<!-- end -->\n"; err != nil || got != want {
		t.Errorf("got %q and %v", got, err)
	}
	if again, err := Put(got, "a", "new"); err != nil || again != got {
		t.Errorf("the second time: %q and %v", again, err)
	}
	for _, name := range []string{"c", "begin"} {
		if _, err := Put(page, name, "x"); err == nil {
			t.Errorf("%s: no error for a part that is not there", name)
		}
	}
	if _, err := Put("<!-- begin a -->\n", "a", "x"); err == nil {
		t.Error("no error for a part without an end")
	}
}
