// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// A second answer to the same input request is ignored, even before the first one was
// read: no request blocks on the channel.
func TestRepeatedAnswerDoesNotBlock(t *testing.T) {
	l := &Protocol{}
	one := newOpenTaskResult(taskKey{"ann", "t"}, &clientSession{}, nil, func() {})
	if l.tasks.addResult(one) != one {
		t.Fatal("no hold")
	}
	defer one.end()
	ask := &pendingInput{req: &mcp.Request{Method: "roots/list"}, answer: make(chan *mcp.Result, 1)}
	key := one.add(ask)
	for _, answer := range []string{"first", "second", "third"} {
		req, err := mcp.NewRequest("tasks/update", []byte(`{"taskId":"t","inputResponses":{"`+key+`":{"is":"`+answer+`"},"never":{}}}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Principal = "ann"
		if _, err := l.updateTask(t.Context(), one.session, req, "t"); err != nil {
			t.Fatal(err)
		}
	}
	if got := string((<-ask.answer).Bytes()); got != `{"is":"first"}` {
		t.Errorf("the answer is %s", got)
	}
	if n := len(ask.answer); n != 0 {
		t.Errorf("%d more answers", n)
	}
	if questions := one.inputRequests(); questions != nil {
		t.Errorf("still asked: %s", questions)
	}
}
