// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

// WireError decodes the error of a message of KindError; the result shares its bytes.
// The code must be an integer and the message a string. Anything else is returned as an
// error about the peer, because the message still answers a request. Raw is set, and is
// what is forwarded.
func (m *Message) WireError() (*Error, error) {
	if m.Kind != KindError {
		return nil, errors.New("the message is not an error response")
	}
	o, err := jsonscan.ParseObject(m.Error, jsonscan.LevelError)
	if err != nil {
		return nil, parseError(err)
	}
	// Read from the bytes: 1e3 is an integer in JSON, but not a code for any client.
	token := o.Raw(jsonscan.FieldCode)
	code, err := strconv.ParseInt(string(token), 10, 64)
	if err != nil || !jsonscan.IsInteger(token) {
		return nil, fmt.Errorf("the error's code is %s, not an integer", describe(token))
	}
	token = o.Raw(jsonscan.FieldMessage)
	if len(token) == 0 || token[0] != '"' {
		return nil, fmt.Errorf("the error's message is %s, not a string", describe(token))
	}
	text, _ := jsonscan.Unescape(nil, token[1:len(token)-1])
	return &Error{Code: code, Message: string(text), Data: o.Raw(jsonscan.FieldErrorData), Raw: m.Error, Beside: m.beside}, nil
}

// describe names the value of a member. A string is not shown, because it is a peer's
// and may be long.
func describe(token []byte) string {
	switch {
	case len(token) == 0:
		return "missing"
	case token[0] == '"' || token[0] == '{' || token[0] == '[':
		return jsonscan.KindOf(token)
	default:
		return jsonscan.Quoted(token)
	}
}
