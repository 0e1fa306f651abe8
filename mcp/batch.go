// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "strconv"

// IsBatch reports whether the JSON text begins like an array: a batch, which only
// revision 2025-03-26 has (basic, "Batching"). Everything else about a batch is checked
// by [SplitBatch].
func IsBatch(data []byte) bool {
	s := scanner{data: data}
	return s.at(s.space(0)) == '['
}

// SplitBatch returns the elements of a batch. They are checked for syntax but not yet
// parsed, so that an invalid message does not affect the others. The elements are parts
// of data, which must not be changed afterwards. The limits apply to the whole batch:
// the elements share the number of members.
//
// The error is a [*ParseError] about the batch as a whole: not an array, empty, or more
// than most elements.
func SplitBatch(data []byte, most int, lim Limits) ([][]byte, error) {
	s := newScanner(data, lim)
	s.depth = s.inLists // Parse checks the depth of each place
	parts := s.batch(most)
	if s.err != nil {
		return nil, s.err
	}
	return parts, nil
}

func (s *scanner) batch(most int) [][]byte {
	i := s.begin()
	if i < 0 {
		return nil
	}
	if s.data[i] != '[' {
		s.invalid(i, "not a batch", "send an array of messages")
		return nil
	}
	start := i
	if i = s.space(i + 1); s.at(i) == ']' {
		s.invalid(start, "the batch is empty", "send at least one message")
		return nil
	}
	var parts [][]byte
	for {
		end := s.value(i, 0)
		if end < 0 {
			return nil
		}
		if len(parts) == most {
			s.exceed(LimitBatch, i, "the batch has more than "+strconv.Itoa(most)+" messages", "send fewer at once")
			return nil
		}
		parts = append(parts, s.data[i:end:end])
		i = s.space(end)
		switch s.at(i) {
		case ',':
			i = s.space(i + 1)
		case ']':
			s.end(i + 1)
			return parts
		default:
			s.syntax(i, "',' or ']' after a message")
			return nil
		}
	}
}
