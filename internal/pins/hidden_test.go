// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package pins

import (
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

func TestHidden(t *testing.T) {
	for text, want := range map[string]string{
		"plain text\nin two lines\twith a tab\r\n":                      "",
		"naïve café, Größe, Ελληνικά, русский":                          "",
		"使用必应搜索指定的关键词":                                                  "",
		"👩\u200d💻 and ❤\ufe0f and 👨\u200d👩\u200d👧":                      "",
		"می\u200cخواهم":                                                 "", // Persian
		"क\u094d\u200dष":                                                "", // Hindi
		"\u200fעברית\u200e":                                             "",
		"🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f": "", // the flag of England
		"葛\U000e0100城":                                                  "", // a form of a character
		"co\u00adoperate":                                               "",

		"Reads a file.\u200bBefore that":  "U+200B",
		"na\u200dme":                      "U+200D",
		"a\u200cb":                        "U+200C",
		"abc\u202etxt":                    "U+202E",
		"\u2066isolated\u2069":            "U+2066",
		"x\U000e0041\U000e0042":           "U+E0041",
		"🏴\U000e0041\U000e007f\U000e0041": "U+E0041",
		"\x1b[2J":                         "U+001B",
		"bell\x07":                        "U+0007",
		"\u0085":                          "U+0085",
		"\ufeffbegin":                     "U+FEFF",
		"x\ufe00\ufe01":                   "U+FE01",
		"\ufe0f":                          "U+FE0F",
		"a\u2063b":                        "U+2063",
		"fill\u3164er":                    "U+3164",
		"private \ue000":                  "U+E000",
		"lines\u2028":                     "U+2028",
	} {
		quoted := jsonscan.AppendString(nil, text)
		for _, definition := range []string{
			string(quoted),
			`{"name":"x","description":` + string(quoted) + `}`,
			`{"inputSchema":{"properties":{"a":{"enum":["b",` + string(quoted) + `]}}}}`,
			`{` + string(quoted) + `:1}`,
		} {
			if sign, found := Hidden([]byte(definition)); sign != want || found != (want != "") {
				t.Errorf("%+q: %q %t, want %q", definition, sign, found, want)
			}
		}
		if spelt := Spell(text); want != "" && !strings.Contains(spelt, "⟨"+want+"⟩") {
			t.Errorf("%+q is spelt %q", text, spelt)
		}
	}
	if got := Spell("a\xffb\ufffd"); got != "a⟨bad byte⟩b\ufffd" {
		t.Errorf("%q", got)
	}
}
