// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import "strconv"

// IsBatch reports whether the JSON text begins like an array: a batch, which only
// revision 2025-03-26 has (basic, "Batching"). Everything else about a batch is checked
// by [SplitBatch].
func IsBatch(data []byte) bool {
	s := Scanner{Data: data}
	return s.At(s.Space(0)) == '['
}

// SplitBatch returns the elements of a batch. They are checked for syntax but not yet
// parsed, so that an invalid message does not affect the others. The elements are parts
// of data, which must not be changed afterwards. The limits apply to the whole batch:
// the elements share the number of members.
//
// The error is a [*Error] about the batch as a whole: not an array, empty, or more
// than most elements.
func SplitBatch(data []byte, most int, lim Limits) ([][]byte, error) {
	s := NewScanner(data, lim)
	s.Depth = s.inLists // the depth of each place is checked later
	parts := s.batch(most)
	if s.Err != nil {
		return nil, s.Err
	}
	return parts, nil
}

func (s *Scanner) batch(most int) [][]byte {
	i := s.Begin()
	if i < 0 {
		return nil
	}
	if s.Data[i] != '[' {
		s.Invalid(i, "not a batch", "send an array of messages")
		return nil
	}
	start := i
	if i = s.Space(i + 1); s.At(i) == ']' {
		s.Invalid(start, "the batch is empty", "send at least one message")
		return nil
	}
	var parts [][]byte
	for {
		end := s.Value(i, 0)
		if end < 0 {
			return nil
		}
		if len(parts) == most {
			s.exceed(LimitBatch, i, "the batch has more than "+strconv.Itoa(most)+" messages", "send fewer at once")
			return nil
		}
		parts = append(parts, s.Data[i:end:end])
		i = s.Space(end)
		switch s.At(i) {
		case ',':
			i = s.Space(i + 1)
		case ']':
			s.End(i + 1)
			return parts
		default:
			s.Syntax(i, "',' or ']' after a message")
			return nil
		}
	}
}
