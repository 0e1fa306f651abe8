// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ranks returns the ranks of tools for a query, and 0 for those that are not found.
func ranks(x *Index, query string) []float64 {
	all := make([]float64, x.tools)
	for _, h := range x.Search(query, x.tools) {
		all[h.Tool] = h.Rank
	}
	return all
}

// A tool with the whole name in the query is before one with more words in its name, although that one
// has the words more often.
func TestNameShare(t *testing.T) {
	x := New([]Tool{
		{Name: "get_card_image_url", Description: "Returns the image of a card. A card has one image; get it by the id of the card."},
		{Name: "get_card", Description: "Returns all that is known."},
		{Name: "list_decks", Description: "Lists decks."},
	})
	if got := ranks(x, "get the card"); got[1] <= got[0] || got[2] != 0 {
		t.Errorf("ranks %v", got)
	}
	if got := ranks(x, "get the image of the card"); got[0] <= got[1] {
		t.Errorf("ranks %v for more words of the longer name", got)
	}
}

// A verb of the query finds tools with one that means the same, after those with the verb itself.
func TestVerbs(t *testing.T) {
	all := []Tool{
		{Name: "read_note", Description: "Returns a note."},
		{Name: "remove_note", Description: "Takes a note away."},
		{Name: "search_notes", Description: "Returns notes by their words."},
		{Name: "delete_note", Description: "Takes a note away."},
		{Name: "modify_note", Description: "Replaces a note."},
	}
	x := New(all)
	for query, want := range map[string][]string{
		"delete":           {"delete_note", "remove_note"},
		"removing":         {"remove_note", "delete_note"},
		"please find":      {"search_notes"},
		"Lookup":           {"search_notes"},
		"edit":             {"modify_note"},
		"change the note":  {"modify_note", "read_note", "remove_note", "search_notes", "delete_note"},
		"create something": nil,
	} {
		var got []string
		for _, h := range x.Search(query, len(all)) {
			got = append(got, all[h.Tool].Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
	}
	for word, same := range verbs {
		for _, s := range same {
			if s == "" || s == word {
				t.Errorf("%q means the same as %q", word, s)
			}
		}
	}
}

// A word counts once, however often the query has it and the verbs that mean the same.
func TestWordsCountOnce(t *testing.T) {
	x := New([]Tool{
		{Name: "search_notes", Description: "Returns notes by their words."},
		{Name: "add_note", Description: "Keeps a note."},
		{Name: "make_or_add_note", Description: "Keeps a note."},
	})
	for query, same := range map[string]string{
		"search notes search note":       "search notes",
		"find the notes, search":         "search notes",
		"search notes, find, lookup":     "search notes",
		"generate a note; create a note": "create note",
	} {
		if got, want := ranks(x, query), ranks(x, same); !cmp.Equal(got, want) {
			t.Errorf("ranks of %q are %v, those of %q %v", query, got, same, want)
		}
	}
	// Of two verbs that mean the same, the better one counts.
	if got, want := ranks(x, "create")[2], sameVerb*ranks(x, "make")[2]; math.Abs(got-want) > 1e-6 {
		t.Errorf("rank %g for a tool with two verbs, want %g", got, want)
	}
}
