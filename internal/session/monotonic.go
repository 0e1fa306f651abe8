// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"errors"
	"strconv"
)

// isStale reports whether a progress value is not greater than the last one. "The progress
// value MUST increase with each notification" (2026-07-28, basic/patterns/progress): a
// client may rely on that, whichever server reports the progress. A value that is not a
// number cannot be compared, and is not stale.
func isStale(last string, value []byte) bool {
	return last != "" && isNumber(string(value)) && !exceeds(string(value), last)
}

func (x *Exchange) advanceLocked(value []byte) {
	if isNumber(string(value)) {
		x.lastProgress = string(value)
	}
}

// isNumber reports whether a JSON value is a number, including one out of a float's range.
func isNumber(value string) bool {
	_, err := strconv.ParseFloat(value, 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// exceeds reports whether one number is greater than another. Integers are compared
// exactly, because counters may exceed the precision of a float.
func exceeds(one, other string) bool {
	i, err := strconv.ParseInt(one, 10, 64)
	j, jerr := strconv.ParseInt(other, 10, 64)
	if err == nil && jerr == nil {
		return i > j
	}
	// A float out of range is infinite, which compares correctly.
	f, _ := strconv.ParseFloat(one, 64)
	g, _ := strconv.ParseFloat(other, 64)
	return f > g
}
