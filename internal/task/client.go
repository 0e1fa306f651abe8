// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"bytes"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
)

// A ClientOffer is what a client of 2025-11-25 declares about tasks that it runs
// itself, for requests from a server (basic/utilities/tasks, "Client Capabilities").
// Undeclared features are false.
type ClientOffer struct {
	Sampling    bool // tasks.requests.sampling.createMessage
	Elicitation bool // tasks.requests.elicitation.create
	List        bool // tasks.list
	Cancel      bool // tasks.cancel
}

// ClientOfferOf reads a client's capabilities.
func ClientOfferOf(capabilities []byte) ClientOffer {
	own := find(capabilities, "tasks")
	requests := find(own, "requests")
	return ClientOffer{
		Sampling:    isObject(find(find(requests, "sampling"), "createMessage")),
		Elicitation: isObject(find(find(requests, "elicitation"), "create")),
		List:        isObject(find(own, "list")),
		Cancel:      isObject(find(own, "cancel")),
	}
}

// Any reports whether any request can be sent as a task.
func (o ClientOffer) Any() bool { return o.Sampling || o.Elicitation }

// Runs reports whether a request with this method can be sent as a task.
func (o ClientOffer) Runs(method string) bool {
	switch method {
	case "sampling/createMessage":
		return o.Sampling
	case "elicitation/create":
		return o.Elicitation
	default:
		return false
	}
}

// Serves reports whether the client serves this method for its tasks.
func (o ClientOffer) Serves(method string) bool {
	switch method {
	case "tasks/get", "tasks/result":
		return o.Any()
	case "tasks/list":
		return o.Any() && o.List
	case "tasks/cancel":
		return o.Any() && o.Cancel
	default:
		return false
	}
}

// CreatedID returns the task id in a CreateTaskResult, or "" if the result is not one.
func CreatedID(result []byte) string { return textOf(find(find(result, "task"), "taskId")) }

// Keep filters a result of tasks/list: it keeps the tasks for which kept returns true.
func Keep(list []byte, kept func(id string) bool) ([]byte, error) {
	m, err := read(list)
	if err != nil {
		return nil, err
	}
	var left [][]byte
	for one := range jsonscan.Elements(m.get("tasks")) {
		t, err := read(one)
		if err != nil {
			return nil, err
		}
		if kept(t.text("taskId")) {
			left = append(left, one)
		}
	}
	all := append([]byte{'['}, bytes.Join(left, []byte{','})...)
	return m.with("tasks", append(all, ']')).bytes(), nil
}
