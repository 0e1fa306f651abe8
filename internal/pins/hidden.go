// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package pins

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

// Hidden reports whether a definition has text that people do not see and models read: characters without a
// form, those that change the direction of text, tags, and control characters such as those of terminals. It
// returns the first of them as U+200B. The definition is valid JSON; names of members count, too.
//
// Joiners are accepted where scripts and emoji need them, and marks of the direction of single characters
// everywhere.
func Hidden(definition []byte) (sign string, found bool) {
	if s, ok := jsonscan.DecodeText(definition); ok {
		return hiddenIn(s)
	}
	for name, value := range jsonscan.Members(definition) {
		if sign, found = hiddenIn(name); found {
			return sign, true
		}
		if sign, found = Hidden(value); found {
			return sign, true
		}
	}
	for value := range jsonscan.Elements(definition) {
		if sign, found = Hidden(value); found {
			return sign, true
		}
	}
	return "", false
}

// hiddenIn is Hidden for a text.
func hiddenIn(s string) (sign string, found bool) {
	var before rune // the last character, or 0
	isFlag := false // within the tags of an emoji flag
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		after, _ := utf8.DecodeRuneInString(s[i+size:])
		switch {
		case r < utf8.RuneSelf && (r >= ' ' && r != 0x7f || r == '\n' || r == '\t' || r == '\r'):
			// nearly all text
		case isTag(r) && (isFlag || before == blackFlag):
			isFlag = r != cancelTag
			before = r
			continue
		case isHidden(r, before, after):
			return fmt.Sprintf("U+%04X", r), true
		}
		isFlag = false
		before = r
	}
	return "", false
}

const (
	zeroWidthNonJoiner = '\u200c'
	zeroWidthJoiner    = '\u200d'
	blackFlag          = '\U0001f3f4'
	cancelTag          = '\U000e007f'
)

func isTag(r rune) bool { return 0xe0000 <= r && r <= 0xe007f }

// isVariation reports whether a character selects a form of the one before it.
func isVariation(r rune) bool { return 0xfe00 <= r && r <= 0xfe0f || 0xe0100 <= r && r <= 0xe01ef }

// isHidden reports whether a character is hidden between two others.
func isHidden(r, before, after rune) bool {
	switch {
	case r == zeroWidthJoiner || r == zeroWidthNonJoiner:
		// Between letters of scripts that join them, or parts of an emoji.
		return !joins(before) || !joins(after)
	case isVariation(r):
		// Several in a row carry data.
		return before == 0 || isVariation(before) || unicode.IsSpace(before)
	case r == '\u200e', r == '\u200f', r == '\u061c', r == '\u00ad': // marks of direction, and a soft hyphen
		return false
	case 0x600 <= r && r <= 0x605, r == 0x6dd, r == 0x70f, r == 0x890, r == 0x891, r == 0x8e2: // signs above Arabic and Syriac numbers
		return false
	default:
		return unicode.In(r, unicode.Cf, unicode.Cc, unicode.Co, unicode.Zl, unicode.Zp) || isUnseen(r)
	}
}

// isUnseen reports whether a letter or mark has no form.
func isUnseen(r rune) bool {
	switch r {
	case '\u034f', '\u115f', '\u1160', '\u17b4', '\u17b5', '\u3164', '\uffa0', '\u2800':
		return true
	default:
		return 0x180b <= r && r <= 0x180f
	}
}

// joins reports whether a character may be next to a joiner: a letter or mark beyond Latin, Greek and Cyrillic, or
// a part of an emoji.
func joins(r rune) bool {
	if isVariation(r) || unicode.Is(unicode.So, r) || unicode.Is(unicode.Sk, r) && r > utf8.RuneSelf {
		return true
	}
	return (unicode.IsLetter(r) || unicode.IsMark(r)) && !unicode.In(r, unicode.Latin, unicode.Greek, unicode.Cyrillic)
}

// Spell returns a text for people, with each hidden character as ⟨U+200B⟩.
func Spell(s string) string {
	var b strings.Builder
	for i, r := range s {
		if r == utf8.RuneError && s[i] != "\ufffd"[0] {
			b.WriteString("⟨bad byte⟩")
			continue
		}
		isText := r == '\n' || r == '\t'
		if !isText && (unicode.In(r, unicode.Cf, unicode.Cc, unicode.Co, unicode.Zl, unicode.Zp) || isVariation(r) || isUnseen(r)) {
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
