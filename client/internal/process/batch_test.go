// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import "testing"

// No argument ends before its end, and none is replaced.
func TestBatchLine(t *testing.T) {
	const file = `C:\node js\npx.cmd`
	for arg, want := range map[string]string{
		"-y":                     `-y`,
		"@x/server@1.2.3":        `@x/server@1.2.3`,
		"":                       `""`,
		"two words":              `"two words"`,
		"https://h/mcp?a=1&b=%2": `"https://h/mcp?a=1&b=%%cd:~,%2"`,
		`a "b" c`:                `"a ""b"" c"`,
		`C:\dir\`:                `"C:\dir\\"`,
		`a\"b`:                   `"a\\""b"`,
		"(x|y)>z^!":              `"(x|y)>z^!"`,
		"é":                      `"é"`,
	} {
		want = `cmd.exe /e:ON /v:OFF /d /c ""` + file + `" first ` + want + `"`
		if got := batchLine(file, []string{"first", arg}); got != want {
			t.Errorf("%q: got\n%s, want\n%s", arg, got, want)
		}
	}
}

func TestIsBatch(t *testing.T) {
	for path, want := range map[string]bool{`C:\npx.cmd`: true, `C:\NPX.CMD`: true, "a.bat": true, "npx": false, "cmd.exe": false} {
		if isBatch(path) != want {
			t.Errorf("%s: %t", path, !want)
		}
	}
	for arg, want := range map[string]bool{"a&b": true, "100%": true, `"`: true, "plain text": false, "@x/y": false} {
		if isSpecialInBatch(arg) != want {
			t.Errorf("%s: %t", arg, !want)
		}
	}
}
