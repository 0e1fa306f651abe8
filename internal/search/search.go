// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package search ranks tools by how well they fit a text that a model or a user writes.
//
// New makes an [Index] of tools, which is immutable, and Search returns the best ones. The rank
// is that of BM25 with several fields (BM25F): a word counts more in a name than in a
// description, less the more tools have it, and less in a long text. There is no clock, no I/O
// and no randomness: the same tools and the same text give the same order.
//
// An Index is made of the tools that one caller may see. The weight of a word depends on all tools
// of the Index, so one of hidden tools would show that they exist.
package search

import (
	"cmp"
	"math"
	"slices"
)

// Tool is what is compared with a text.
type Tool struct {
	Name        string // without the prefix of its server
	Server      string
	Title       string
	Description string
	Arguments   []string // names and descriptions of the arguments
}

// The fields of a Tool.
const (
	fieldName = iota
	fieldTitle
	fieldServer
	fieldDescription
	fieldArguments
	numFields
)

// fields has the weight of each field, and how much the length of a text in it lowers the rank:
// 0 for not at all, 1 for in proportion.
//
//nolint:gochecknoglobals // never changed
var fields = [numFields]struct{ weight, length float64 }{
	fieldName:        {3, 0.3},
	fieldTitle:       {2, 0.3},
	fieldServer:      {1.5, 0.3},
	fieldDescription: {1, 0.75},
	fieldArguments:   {0.6, 0.75},
}

// saturation is how fast more occurrences of a word in a tool count less (k1 of BM25).
const saturation = 1.2

// maxWords bounds the different words of a query. The rest of a longer text is ignored.
const maxWords = 200

// Index ranks the tools that it was made of. It is immutable, and safe for concurrent use.
type Index struct {
	tools int
	words map[string]int // the numbers of words, by their stem
	in    [][]posting    // of each word, the tools that have it
}

// posting is the rank that a word gives to a tool.
type posting struct {
	tool int32
	rank float32
}

// Hit is a tool that fits a query.
type Hit struct {
	Tool int     // index in the tools that the Index was made of
	Rank float64 // greater is better
}

// New returns an Index of tools.
func New(tools []Tool) *Index {
	c := counter{stems: make(map[string]int), seen: make(map[string]int), lengths: make([][numFields]int, len(tools))}
	for i := range tools {
		t := &tools[i]
		c.add(i, fieldName, t.Name)
		c.add(i, fieldTitle, t.Title)
		c.add(i, fieldServer, t.Server)
		c.add(i, fieldDescription, t.Description)
		for _, a := range t.Arguments {
			c.add(i, fieldArguments, a)
		}
	}
	x := &Index{tools: len(tools), words: c.stems, in: make([][]posting, len(c.occurrences))}
	var mean [numFields]float64
	for f := range mean {
		for i := range tools {
			mean[f] += float64(c.lengths[i][f]) / float64(len(tools))
		}
	}
	for w, all := range c.occurrences {
		n, with := float64(len(tools)), float64(len(all))
		rarity := math.Log1p((n - with + 0.5) / (with + 0.5))
		x.in[w] = make([]posting, len(all))
		for k, o := range all {
			var weight float64
			for f, times := range o.times {
				if times > 0 {
					b := fields[f].length
					weight += fields[f].weight * float64(times) / (1 - b + b*float64(c.lengths[o.tool][f])/mean[f])
				}
			}
			x.in[w][k] = posting{int32(o.tool), float32(rarity * weight * (saturation + 1) / (saturation + weight))}
		}
	}
	return x
}

// counter counts the words of tools.
type counter struct {
	stems       map[string]int   // the number of each word, by its stem
	seen        map[string]int   // the same by the word as written; -1 for one that is left out
	occurrences [][]occurrence   // by the number of the word
	lengths     [][numFields]int // of each tool, in words
}

// occurrence is how often a word is in the fields of a tool.
type occurrence struct {
	tool  int
	times [numFields]int
}

// add counts the words of a text. Texts of a tool are added before those of the next one.
func (c *counter) add(tool, field int, text string) {
	for word := range words(text) {
		n, ok := c.seen[word]
		if !ok {
			n = c.number(word)
			c.seen[word] = n
		}
		if n < 0 {
			continue
		}
		c.lengths[tool][field]++
		in := &c.occurrences[n]
		if len(*in) == 0 || (*in)[len(*in)-1].tool != tool {
			*in = append(*in, occurrence{tool: tool})
		}
		(*in)[len(*in)-1].times[field]++
	}
}

// number returns the number of a word, or -1 for one that is left out.
func (c *counter) number(word string) int {
	s := stem(word)
	if s == "" {
		return -1
	}
	n, ok := c.stems[s]
	if !ok {
		n = len(c.stems)
		c.stems[s] = n
		c.occurrences = append(c.occurrences, nil)
	}
	return n
}

// Search returns the tools that have a word of the query, the best one first, and at most limit. Of
// equally good ones the first of the Index is first.
func (x *Index) Search(query string, limit int) []Hit {
	ranks := make([]float64, x.tools)
	asked := make(map[int]bool)
	var hits []Hit
	for word := range words(query) {
		w, ok := x.words[stem(word)]
		if !ok || asked[w] {
			continue
		}
		if asked[w] = true; len(asked) > maxWords {
			break
		}
		for _, p := range x.in[w] {
			if ranks[p.tool] == 0 {
				hits = append(hits, Hit{Tool: int(p.tool)})
			}
			ranks[p.tool] += float64(p.rank)
		}
	}
	for i := range hits {
		hits[i].Rank = ranks[hits[i].Tool]
	}
	slices.SortFunc(hits, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Rank, a.Rank), a.Tool-b.Tool) })
	return hits[:min(len(hits), max(limit, 0))]
}
