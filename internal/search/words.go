// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package search

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"
)

// longestWord bounds a word, in bytes. Longer ones are data, such as an example in base64.
const longestWord = 60

// words yields the words of a text in lower case. Names are split where their case or the kind of
// their characters changes, so that "createPullRequest2" has the words of "create pull request 2".
// Chinese, Japanese and Korean, which do not separate their words, are split into characters.
func words(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		begin := -1 // of the word that is being read
		var last rune
		word := func(end int) bool {
			from := begin
			begin = -1
			if from < 0 || end-from > longestWord {
				return true
			}
			return yield(strings.ToLower(text[from:end]))
		}
		for i, r := range text {
			ok := true
			switch {
			case isIdeograph(r):
				ok = word(i) && yield(string(r))
			case !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r):
				ok = word(i)
			case begin < 0:
				begin = i
			case unicode.IsDigit(r) != unicode.IsDigit(last), unicode.IsUpper(r) && unicode.IsLower(last):
				ok = word(i)
				begin = i
			case unicode.IsLower(r) && unicode.IsUpper(last) && i-utf8.RuneLen(last) > begin:
				// The last capital of "HTTPServer" begins a word.
				at := i - utf8.RuneLen(last)
				ok = word(at)
				begin = at
			}
			if !ok {
				return
			}
			last = r
		}
		word(len(text))
	}
}

// isIdeograph reports whether a character is a word of its own.
func isIdeograph(r rune) bool {
	const first = 0x1100
	return r >= first && (r == 'ー' || unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul))
}

// stem returns the form in which a word is compared, or "" for one that distinguishes no tools.
func stem(word string) string {
	if stopWords[word] {
		return ""
	}
	return english.Stem(word, false)
}

// stopWords are words of English that distinguish no tools.
var stopWords = func() map[string]bool { //nolint:gochecknoglobals // never changed
	all := make(map[string]bool)
	for w := range strings.FieldsSeq(`a about after all also am an and any are as at be been being both but by can cannot could did do
does doing for from further had has have having he her here hers him his how i if in into is it its just me more most my no nor not of on
once only or other our ours out over own please same she should so some such than that the their theirs them then there these they this
those through to too under until up very want wants was we were what when where which while whom will with would you your yours d ll m re s t ve`) {
		all[w] = true
	}
	return all
}()

// verbs has the stems of the verbs that mean the same as one, in names of tools.
var verbs = func() map[string][]string { //nolint:gochecknoglobals // never changed
	all := make(map[string][]string)
	for _, same := range []string{"add create generate make", "change edit modify update", "delete remove", "execute run", "find lookup query search"} {
		for a := range strings.FieldsSeq(same) {
			for b := range strings.FieldsSeq(same) {
				if a != b {
					all[stem(a)] = append(all[stem(a)], stem(b))
				}
			}
		}
	}
	return all
}()
