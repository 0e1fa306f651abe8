// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// answer is what a request was answered with the first time, but for the id.
type answer struct {
	before, after []byte
}

// learn judges the first answer to a request, and remembers it.
func learn(message, digits []byte, judge func(result []byte) error) (*answer, error) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(message, &m); err != nil {
		return nil, fmt.Errorf("answer: %w: %.300s", err, message)
	}
	if m.Error != nil || m.Result == nil {
		return nil, fmt.Errorf("answer without a result: %.300s", message)
	}
	if !bytes.Equal(m.ID, digits) || bytes.Count(message, digits) != 1 {
		return nil, fmt.Errorf("answer with the id %s for %s", m.ID, digits)
	}
	if judge != nil {
		if err := judge(m.Result); err != nil {
			return nil, err
		}
	}
	before, after, _ := bytes.Cut(message, digits)
	return &answer{before: bytes.Clone(before), after: bytes.Clone(after)}, nil
}

var errDiffers = errors.New("the answer is not the same as the first one")

// check compares an answer with the first.
func (a *answer) check(message, digits []byte) error {
	rest, ok := bytes.CutPrefix(message, a.before)
	if !ok {
		return errDiffers
	}
	rest, ok = bytes.CutPrefix(rest, digits)
	if !ok || !bytes.Equal(rest, a.after) {
		return errDiffers
	}
	return nil
}

// last is the message that ends an event stream, and how many notifications of
// progress stand before it. What is neither is an error.
func last(stream []byte) (message []byte, progress int, err error) {
	for len(stream) > 0 {
		var line []byte
		line, stream, _ = bytes.Cut(stream, []byte("\n"))
		data, ok := bytes.CutPrefix(bytes.TrimSuffix(line, []byte("\r")), []byte("data:"))
		data = bytes.TrimPrefix(data, []byte(" "))
		if !ok || len(data) == 0 { // another field, the end of an event, or one that only gives an id
			continue
		}
		switch {
		case message != nil:
			return nil, progress, errors.New("an event behind the answer")
		case !bytes.Contains(data[:min(len(data), methodWithin)], []byte(`"method":`)):
			message = data
		case bytes.Contains(data, []byte(`"notifications/progress"`)):
			progress++
		default:
			return nil, progress, fmt.Errorf("an event that nobody asked for: %.200s", data)
		}
	}
	if message == nil {
		return nil, progress, errors.New("a stream that ended without an answer")
	}
	return message, progress, nil
}

// methodWithin is how far into a notification its method stands at most: what
// follows may be an answer of a MiB, which is not searched.
const methodWithin = 60
