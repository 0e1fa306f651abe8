// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"strconv"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// The codes that the modern revisions reserve (2026-07-28, basic, "Error Codes"): a
// reserved code that none of them defines must not be sent.
const (
	firstReserved = -32020
	lastReserved  = -32099
)

// Error converts the code of a request's error into the one for clients of the era.
// Without an exact equivalent it uses the closest code of JSON-RPC, or one of
// Signalbox; message and data still describe the error. Everything else of the
// backend's error is unmodified. The request may be nil.
func Error(era mcp.Era, req *mcp.Request, err *mcp.Error) *mcp.Error {
	code := legacyCode(req, err)
	if era == mcp.EraModern {
		code = modernCode(err)
	}
	if code == err.Code {
		return err
	}
	return recode(err, code)
}

func modernCode(err *mcp.Error) int64 {
	code := err.Code
	switch code {
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability, mcp.CodeUnsupportedVersion:
		return code
	case mcp.CodeInvalidRequest:
		if namesCapabilities(err) {
			return mcp.CodeMissingCapability
		}
	case mcp.CodeResourceNotFound:
		return mcp.CodeInvalidParams
	case mcp.CodeURLElicitationRequired:
		return mcp.CodeUnsupported
	}
	if code <= firstReserved && code >= lastReserved {
		return mcp.CodeInternalError
	}
	return code
}

func legacyCode(req *mcp.Request, err *mcp.Error) int64 {
	switch err.Code {
	case mcp.CodeHeaderMismatch, mcp.CodeMissingCapability:
		return mcp.CodeInvalidRequest
	case mcp.CodeUnsupportedVersion:
		// 2025-11-25, basic/lifecycle, "Error Handling".
		return mcp.CodeInvalidParams
	case mcp.CodeInvalidParams:
		if isMissingResource(req, err) {
			return mcp.CodeResourceNotFound
		}
	}
	return err.Code
}

// isMissingResource reports whether the error means that the requested URI has no
// resource. Invalid params can mean other errors too; only an error about a missing
// resource names the URI (2026-07-28, server/resources, "Error Handling").
func isMissingResource(req *mcp.Request, err *mcp.Error) bool {
	if req == nil || req.Method != "resources/read" {
		return false
	}
	uri, ok := req.Params.Text(mcp.FieldURI)
	named, isText := jsonscan.DecodeText(jsonscan.Member(err.Data, "uri"))
	return ok && isText && named == uri
}

// namesCapabilities reports whether the error names the capabilities that the client
// must declare (2026-07-28, basic, "Error Codes"). The legacy era has no code for it,
// so servers of that era can name them only in the data, as legacyCode leaves them.
func namesCapabilities(err *mcp.Error) bool {
	return jsonscan.IsObject(jsonscan.Member(err.Data, "requiredCapabilities"))
}

// recode returns the error with another code.
func recode(err *mcp.Error, code int64) *mcp.Error {
	next := &mcp.Error{Code: code, Message: err.Message, Data: err.Data, Beside: err.Beside}
	if err.Raw != nil {
		next.Raw = jsonscan.RewriteMembers(err.Raw, func(name string, value []byte) []byte {
			if name == "code" {
				return strconv.AppendInt(nil, code, 10)
			}
			return value
		})
	}
	return next
}
