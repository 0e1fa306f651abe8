// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"strings"
	"time"
)

// A CallID identifies one request of a client in the log, in records and in errors. Its
// upper 36 bits are milliseconds, the lower 14 a counter, so that later calls of a
// process have larger ids; the milliseconds repeat every two years. Zero means no id.
type CallID uint64

const (
	callCounterBits = 14
	callBits        = 36 + callCounterBits
	callDigits      = callBits / callDigitBits
	callDigitBits   = 5

	// callAlphabet is Crockford's base32: without i, l, o and u.
	callAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"
)

// CallIDAt returns the id of a call at a time. The counter may exceed its bits: it then
// counts in the milliseconds.
func CallIDAt(at time.Time, counter uint64) CallID {
	return CallID((uint64(at.UnixMilli())<<callCounterBits + counter) & (1<<callBits - 1))
}

// Time returns when the call was received, to the millisecond. An id does not have the
// whole time: the latest before now is assumed.
func (id CallID) Time(now time.Time) time.Time {
	const period = int64(1) << (callBits - callCounterBits)
	back := (now.UnixMilli() - int64(id>>callCounterBits)) % period
	return now.Add(-time.Duration((back+period)%period) * time.Millisecond).Truncate(time.Millisecond)
}

// String returns the id as ten digits, such as 7k3m9-q2xfa, or "" for zero.
func (id CallID) String() string { return string(id.AppendTo(nil)) }

// AppendTo appends what String returns.
func (id CallID) AppendTo(dst []byte) []byte {
	if id == 0 {
		return dst
	}
	for i := range callDigits {
		if i == callDigits/2 {
			dst = append(dst, '-')
		}
		dst = append(dst, callAlphabet[id>>(callDigitBits*(callDigits-1-i))&(1<<callDigitBits-1)])
	}
	return dst
}

// ParseCallID reads what String returns. As people type ids, it also accepts capitals,
// an id without the dash, and the letters that are easily taken for digits. It reports
// false for any other text.
func ParseCallID(text string) (CallID, bool) {
	text = strings.ToLower(text)
	if before, after, ok := strings.Cut(text, "-"); ok && len(before) == callDigits/2 {
		text = before + after
	}
	if len(text) != callDigits {
		return 0, false
	}
	var id CallID
	for _, digit := range []byte(text) {
		switch digit {
		case 'i', 'l':
			digit = '1'
		case 'o':
			digit = '0'
		}
		value := strings.IndexByte(callAlphabet, digit)
		if value < 0 {
			return 0, false
		}
		id = id<<callDigitBits | CallID(value)
	}
	return id, id != 0
}
