// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/quick"

	"github.com/google/go-cmp/cmp"
)

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"createPullRequest2":           "create pull request 2",
		"create_pull-request.2":        "create pull request 2",
		"HTTPServer":                   "http server",
		"parseHTTP":                    "parse http",
		"XML2JSON":                     "xml 2 json",
		"Größe der Straße":             "größe der straße",
		"the user's file":              "the user s file",
		"使用必应 search":                  "使 用 必 应 search",
		"東京タワーtokyo":                   "東 京 タ ワ ー tokyo",
		"naïve café":                   "naïve café",
		strings.Repeat("a", 61):        "",
		"a " + strings.Repeat("é", 30): "a " + strings.Repeat("é", 30),
		"\xff\xfebad":                  "bad",
	} {
		if got := strings.Join(slices.Collect(words(text)), " "); got != want {
			t.Errorf("words(%q) are %q, want %q", text, got, want)
		}
	}
}

func FuzzWords(f *testing.F) {
	f.Add("createPullRequest2 使用 HTTPServer's")
	f.Fuzz(func(t *testing.T, text string) {
		n := 0
		for w := range words(text) {
			if n += len(w); w == "" || strings.ContainsAny(w, " _-./") || w != strings.ToLower(w) {
				t.Errorf("word %q", w)
			}
			stem(w)
		}
		// Some characters are longer in lower case.
		if n > 3*len(text) {
			t.Errorf("%d bytes of words in %d bytes", n, len(text))
		}
	})
}

func tools() []Tool {
	return []Tool{
		{Name: "create_issue", Server: "github", Description: "Opens a new issue in a repository.", Arguments: []string{"title", "body", "labels to put on the issue"}},
		{Name: "list_pull_requests", Server: "github", Description: "Lists the pull requests of a repository."},
		{Name: "read_file", Server: "files", Title: "Read a file", Description: "Returns the content of a file as text."},
		{Name: "write_file", Server: "files", Title: "Write a file", Description: "Replaces the content of a file."},
		{Name: "get_forecast", Server: "weather", Description: "The weather of the next days in a city.", Arguments: []string{"city", "celsius or fahrenheit"}},
		{Name: "搜索", Server: "web", Description: "使用必应搜索网页"},
	}
}

func names(x *Index, query string, limit int) (found []string) {
	for _, h := range x.Search(query, limit) {
		found = append(found, tools()[h.Tool].Name)
	}
	return found
}

func TestSearch(t *testing.T) {
	x := New(tools())
	for query, want := range map[string][]string{
		"read a file":                         {"read_file", "write_file"},
		"write files":                         {"write_file", "read_file"}, // the stem
		"readFile":                            {"read_file", "write_file"},
		"what will the weather be?":           {"get_forecast"},
		"temperature in fahrenheit":           {"get_forecast"}, // an argument
		"issue":                               {"create_issue"},
		"github":                              {"create_issue", "list_pull_requests"}, // their server
		"必应":                                  {"搜索"},
		"the of and":                          nil,
		"nothing like it":                     nil,
		"":                                    nil,
		strings.Repeat("unheard ", 1000) + "": nil,
	} {
		if diff := cmp.Diff(want, names(x, query, 10)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
	}
	if got := names(x, "file", 1); len(got) != 1 {
		t.Errorf("%q for a limit of 1", got)
	}
	if got := x.Search("file", 0); len(got) != 0 {
		t.Errorf("%v for a limit of 0", got)
	}
	if got := New(nil).Search("file", 10); len(got) != 0 {
		t.Errorf("%v in no tools", got)
	}
}

// The order is that of the ranks, then that of the tools, whatever the query is.
func TestOrder(t *testing.T) {
	same := slices.Repeat([]Tool{{Name: "read", Description: "Reads."}}, 50)
	for i, h := range New(same).Search("read", 50) {
		if h.Tool != i {
			t.Fatalf("tool %d is at %d", h.Tool, i)
		}
	}
	x := New(tools())
	check := func(query string) bool {
		hits := x.Search(query, 100)
		return slices.IsSortedFunc(hits, func(a, b Hit) int {
			if a.Rank != b.Rank && a.Rank > b.Rank || a.Rank == b.Rank && a.Tool < b.Tool {
				return -1
			}
			return 1
		}) && cmp.Equal(hits, New(tools()).Search(query, 100))
	}
	for _, q := range []string{"read write file issue city weather", "github repository content", "搜索 file"} {
		if !check(q) {
			t.Errorf("%q: %v", q, x.Search(q, 100))
		}
	}
	if err := quick.Check(check, nil); err != nil {
		t.Error(err)
	}
}

// A word in a name counts more than the same word in a description, and a rare word more than a
// common one.
func TestRank(t *testing.T) {
	x := New([]Tool{
		{Name: "send", Description: "Sends a message to a channel, with a copy to the archive."},
		{Name: "archive", Description: "Moves a message away."},
		{Name: "list", Description: "Lists a message."},
	})
	for query, want := range map[string]int{"archive": 1, "message channel": 0} {
		if hits := x.Search(query, 3); hits[0].Tool != want {
			t.Errorf("%q finds %v", query, hits)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	many := manyTools(2000)
	for b.Loop() {
		New(many)
	}
}

func BenchmarkSearch(b *testing.B) {
	x := New(manyTools(2000))
	for b.Loop() {
		x.Search("read the content of an issue of repository 7 and post it to a channel", 10)
	}
}

// manyTools returns n tools of usual size.
func manyTools(n int) []Tool {
	verbs, nouns := strings.Fields("create read update delete list search move copy open close send post"), strings.Fields("issue file channel repository message page user team event invoice ticket branch")
	all := make([]Tool, n)
	for i := range all {
		verb, noun := verbs[i%len(verbs)], nouns[i/len(verbs)%len(nouns)]
		all[i] = Tool{
			Name: verb + "_" + noun, Server: fmt.Sprintf("server%d", i/40), Title: verb + " a " + noun,
			Description: fmt.Sprintf("Uses the API of the service to %s a %s of workspace %d. The result has the %s with its id, its owner and the time of the last change. Needs the right to %s.", verb, noun, i, noun, verb),
			Arguments:   []string{"id", "the id of the " + noun, "workspace", "the workspace in which to look, or the default one", "limit", "how many to return at most"},
		}
	}
	return all
}
