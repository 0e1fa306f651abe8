// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mutant

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Variable is the environment variable that contains the name of the Switch that is on.
const Variable = "SIGNALBOX_BROKEN"

// A Switch is a change that is compiled together with others, and has an effect only in processes
// that have its name as [Variable]. One build is then enough for all of them. The word BROKEN in
// New is an expression: it is true if the Switch is on. New must do what Old does if it is false.
type Switch struct {
	Name string
	Change
}

var brokenWord = regexp.MustCompile(`\bBROKEN\b`)

// SwitchedTexts returns the texts of the files with all switches. Each Old must be in its file
// exactly once, must not overlap with another, and each New must have the word BROKEN.
func SwitchedTexts(all []Switch) (map[string]string, error) {
	byFile := make(map[string][]Switch)
	for _, s := range all {
		byFile[s.File] = append(byFile[s.File], s)
	}
	texts := make(map[string]string)
	for file, switches := range byFile {
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if texts[file], err = switchedText(file, string(source), switches); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

func switchedText(file, source string, switches []Switch) (string, error) {
	at := make(map[string]int) // of old texts
	for _, s := range switches {
		if n := strings.Count(source, s.Old); n != 1 {
			return "", fmt.Errorf("%s: %q is %d times in %s, want once", s.Name, s.Old, n, file)
		}
		if !brokenWord.MatchString(s.New) {
			return "", fmt.Errorf("%s: the new text of %s has no BROKEN", s.Name, file)
		}
		at[s.Old] = strings.Index(source, s.Old)
	}
	slices.SortFunc(switches, func(a, b Switch) int { return at[a.Old] - at[b.Old] })
	var out strings.Builder
	end := 0
	for _, s := range switches {
		if at[s.Old] < end {
			return "", fmt.Errorf("%s: its piece of %s is part of that of another", s.Name, file)
		}
		out.WriteString(source[end:at[s.Old]])
		out.WriteString(brokenWord.ReplaceAllLiteralString(s.New, "isBroken("+strconv.Quote(s.Name)+")"))
		end = at[s.Old] + len(s.Old)
	}
	out.WriteString(source[end:])
	if _, err := parser.ParseFile(token.NewFileSet(), file, out.String(), parser.SkipObjectResolution); err != nil {
		return "", fmt.Errorf("with its switches: %w", err)
	}
	return out.String(), nil
}

// OverlaySwitches writes the files with all switches into a folder, and returns the value of the
// flag -overlay of the go command with which the compiler reads them.
func OverlaySwitches(folder string, all []Switch) (overlay string, err error) {
	texts, err := SwitchedTexts(all)
	if err != nil {
		return "", err
	}
	for _, s := range all {
		source, err := parser.ParseFile(token.NewFileSet(), s.File, nil, parser.PackageClauseOnly)
		if err != nil {
			return "", err
		}
		texts[filepath.Join(filepath.Dir(s.File), "broken_switch.go")] = fmt.Sprintf(
			"package %s\n\nimport \"os\"\n\nvar brokenName = os.Getenv(%q)\n\nfunc isBroken(name string) bool { return name == brokenName }\n", source.Name.Name, Variable)
	}
	return overlayOf(folder, texts)
}
