// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// answer is the first response to a request, without the id.
type answer struct {
	before, after []byte
}

// learn judges the first response to a request, and stores it.
func learn(message, digits []byte, judge func(result []byte) error) (*answer, error) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(message, &m); err != nil {
		return nil, fmt.Errorf("response: %w: %.300s", err, message)
	}
	if m.Error != nil || m.Result == nil {
		return nil, fmt.Errorf("response without a result: %.300s", message)
	}
	if !bytes.Equal(m.ID, digits) || bytes.Count(message, digits) != 1 {
		return nil, fmt.Errorf("response with the id %s for %s", m.ID, digits)
	}
	if judge != nil {
		if err := judge(m.Result); err != nil {
			return nil, err
		}
	}
	before, after, _ := bytes.Cut(message, digits)
	return &answer{before: bytes.Clone(before), after: bytes.Clone(after)}, nil
}

var errDiffers = errors.New("the response differs from the first one")

// check compares a response with the first.
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

// last returns the message that ends an event stream, and the number of progress
// notifications before it. Any other message is an error.
func last(stream []byte) (message []byte, progress int, err error) {
	for len(stream) > 0 {
		var line []byte
		line, stream, _ = bytes.Cut(stream, []byte("\n"))
		data, ok := bytes.CutPrefix(bytes.TrimSuffix(line, []byte("\r")), []byte("data:"))
		data = bytes.TrimPrefix(data, []byte(" "))
		if !ok || len(data) == 0 { // another field, the end of an event, or an event with only an id
			continue
		}
		switch {
		case message != nil:
			return nil, progress, errors.New("event after the response")
		case !bytes.Contains(data[:min(len(data), methodWithin)], []byte(`"method":`)):
			message = data
		case bytes.Contains(data, []byte(`"notifications/progress"`)):
			progress++
		default:
			return nil, progress, fmt.Errorf("unexpected event: %.200s", data)
		}
	}
	if message == nil {
		return nil, progress, errors.New("stream ended without a response")
	}
	return message, progress, nil
}

// methodWithin is the maximum offset of a notification's method. The rest may be a response
// of 1 MiB, which is not searched.
const methodWithin = 60
