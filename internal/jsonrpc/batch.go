// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// IsBatch reports whether the JSON text begins like an array: a batch, which only
// revision 2025-03-26 has (basic, "Batching"). Everything else about a batch is checked
// by [SplitBatch].
func IsBatch(data []byte) bool { return jsonscan.IsBatch(data) }

// SplitBatch returns the elements of a batch. They are checked for syntax but not yet
// parsed, so that an invalid message does not affect the others. The elements are parts
// of data, which must not be changed afterwards. The limits apply to the whole batch:
// the elements share the number of members.
//
// The error is a [*mcp.ParseError] about the batch as a whole: not an array, empty, or
// more than most elements.
func SplitBatch(data []byte, most int, lim mcp.Limits) ([][]byte, error) {
	parts, err := jsonscan.SplitBatch(data, most, jsonscan.Limits(lim))
	return parts, parseError(err)
}

// parseError returns the scanner's error as an [*mcp.ParseError], and any other error,
// which is a reader's or a writer's, as it is.
func parseError(err error) error {
	e, ok := err.(*jsonscan.Error) //nolint:errorlint // the scanner wraps none
	if !ok {
		return err
	}
	code := int64(mcp.CodeInvalidRequest)
	if e.Malformed {
		code = mcp.CodeParseError
	}
	return &mcp.ParseError{Code: code, Offset: e.Offset, Reason: e.Reason, Cure: e.Cure, Exceeded: mcp.Limit(e.Exceeded)}
}
