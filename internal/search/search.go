// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package search ranks tools by how well they fit a text that a model or a user writes.
//
// New makes an [Index] of tools, which is immutable, and Search returns the best ones. The rank
// is that of BM25 with several fields (BM25F): a word counts more in a name than in a
// description, less the more tools have it, and less in a long text. It is higher the more of the
// words of a tool's name the text has. There is no clock, no I/O and no randomness: the same tools
// and the same text give the same order.
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
const saturation = 0.75

// nameShare is by which part the rank of a tool is higher if the query has all words of its name.
const nameShare = 0.5

// sameVerb is how much a verb counts in place of one of the query that means the same.
const sameVerb = 0.3

// maxWords bounds the different words of a query. The rest of a longer text is ignored.
const maxWords = 200

// Index ranks the tools that it was made of. It is immutable, and safe for concurrent use.
type Index struct {
	tools int
	words map[string]int // the numbers of words, by their stem
	in    [][]posting    // of each word, the tools that have it
}

// posting is what a word gives to a tool.
type posting struct {
	tool  int32
	rank  float32
	share float32 // of the name of the tool, in which rare words are more; 0 for a word that is not in it
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
	rarity := make([]float64, len(c.occurrences))
	names := make([]float64, len(tools)) // the rarity of the words of the name, together
	for w, all := range c.occurrences {
		n, with := float64(len(tools)), float64(len(all))
		rarity[w] = math.Log1p((n - with + 0.5) / (with + 0.5))
		for _, o := range all {
			names[o.tool] += rarity[w] * float64(o.times[fieldName])
		}
	}
	for w, all := range c.occurrences {
		x.in[w] = make([]posting, len(all))
		for k, o := range all {
			var weight float64
			for f, times := range o.times {
				if times > 0 {
					b := fields[f].length
					weight += fields[f].weight * float64(times) / (1 - b + b*float64(c.lengths[o.tool][f])/mean[f])
				}
			}
			p := posting{tool: int32(o.tool), rank: float32(rarity[w] * weight * (saturation + 1) / (saturation + weight))}
			if times := o.times[fieldName]; times > 0 {
				p.share = float32(rarity[w] * float64(times) / names[o.tool])
			}
			x.in[w][k] = p
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

// score is what a query gives to a tool.
type score struct {
	rank  float64
	share float32 // of the words of the name
	word  int32   // the last word of the query that the tool has, from 1
	best  float32 // the rank for it
}

// Search returns the tools that have a word of the query, or a verb that means the same as one of it,
// the best one first, and at most limit. Of equally good ones the first of the Index is first.
func (x *Index) Search(query string, limit int) []Hit {
	scores := make([]score, x.tools)
	var hits []Hit
	add := func(word int32, w int, factor float32) {
		for _, p := range x.in[w] {
			s := &scores[p.tool]
			if s.word == 0 {
				hits = append(hits, Hit{Tool: int(p.tool)})
			}
			if s.word != word {
				s.word, s.best = word, 0
			}
			if rank := factor * p.rank; rank > s.best {
				s.rank += float64(rank - s.best)
				s.best = rank
			}
			s.share += p.share
		}
	}
	stems := x.stems(query)
	asked := make(map[int]bool, len(stems)) // the words that have been added or will be
	for _, s := range stems {
		if w, ok := x.words[s]; ok {
			asked[w] = true
		}
	}
	for i, s := range stems {
		word := int32(i + 1)
		if w, ok := x.words[s]; ok {
			add(word, w, 1)
		}
		for _, v := range verbs[s] {
			if w, ok := x.words[v]; ok && !asked[w] {
				asked[w] = true
				add(word, w, sameVerb)
			}
		}
	}
	for i := range hits {
		s := scores[hits[i].Tool]
		hits[i].Rank = s.rank * (1 + nameShare*float64(s.share))
	}
	slices.SortFunc(hits, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Rank, a.Rank), a.Tool-b.Tool) })
	return hits[:min(len(hits), max(limit, 0))]
}

// stems returns the stems of the different words of a query for which a tool may be found, and at
// most maxWords.
func (x *Index) stems(query string) []string {
	var all []string
	seen := make(map[string]bool)
	for word := range words(query) {
		s := stem(word)
		if _, ok := x.words[s]; !ok && verbs[s] == nil || seen[s] {
			continue
		}
		if len(all) == maxWords {
			break
		}
		seen[s] = true
		all = append(all, s)
	}
	return all
}
