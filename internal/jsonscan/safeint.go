// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"bytes"
	"strconv"
)

// SafeInteger returns a number in the decimal form of a header, if it is an integer,
// however written, that every JSON reader represents exactly: 42.0 and 4.2e1 are 42. It
// does not use a float, which would change 9007199254740993, and its work is bounded
// whatever the exponent, unlike a big number's.
func SafeInteger(token []byte) (string, bool) {
	const (
		limit     = 1<<53 - 1
		maxLength = 64 // longer than any usual form of a safe integer
	)
	s := NewScanner(token, Limits{})
	if len(token) > maxLength || s.number(0) != len(token) {
		return "", false
	}
	digits, ok := integerDigits(token)
	if !ok {
		return "", false
	}
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil || n > limit || n < -limit {
		return "", false
	}
	return strconv.FormatInt(n, 10), true
}

// integerDigits returns the digits of a number with its exponent applied. It reports
// false if a fraction remains or there are too many digits.
func integerDigits(token []byte) ([]byte, bool) {
	mantissa, exponent := token, 0
	if e := bytes.IndexAny(token, "eE"); e >= 0 {
		n, err := strconv.Atoi(string(token[e+1:]))
		if err != nil {
			return nil, false
		}
		mantissa, exponent = token[:e], n
	}
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	digits := append(bytes.Clone(whole), fraction...)
	exponent -= len(fraction)
	for exponent < 0 && len(digits) > 1 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
		exponent++
	}
	// Before the exponent is used: zero is zero with any exponent.
	if len(bytes.Trim(digits, "-0")) == 0 {
		return []byte("0"), true
	}
	if exponent < 0 || exponent > len("9007199254740991") {
		return nil, false
	}
	return append(digits, bytes.Repeat([]byte("0"), exponent)...), true
}
