// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"strconv"
)

// advance is how far the progress of an exchange has got. "The progress value MUST
// increase with each notification" (2026-07-28, basic/patterns/progress): a client
// may rely on that, whoever says the progress.
type advance struct{ value string }

// stalls reports whether a value is not further than what was reported. What is no
// number cannot be compared, and is nobody's progress to judge.
func (a *advance) stalls(value []byte) bool {
	return a.value != "" && isNumber(string(value)) && !exceeds(string(value), a.value)
}

// reach notes that a value was reported.
func (a *advance) reach(value []byte) {
	if isNumber(string(value)) {
		a.value = string(value)
	}
}

// isNumber reports whether a JSON value is a number. One that no float can hold is
// one too.
func isNumber(value string) bool {
	_, err := strconv.ParseFloat(value, 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// exceeds reports whether one number is greater than another. Integers are compared
// exactly: there are counters beyond what a float can tell apart.
func exceeds(one, other string) bool {
	i, err := strconv.ParseInt(one, 10, 64)
	j, jerr := strconv.ParseInt(other, 10, 64)
	if err == nil && jerr == nil {
		return i > j
	}
	// Out of range a float is infinite, which compares as it should.
	f, _ := strconv.ParseFloat(one, 64)
	g, _ := strconv.ParseFloat(other, 64)
	return f > g
}
