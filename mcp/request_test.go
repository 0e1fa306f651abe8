// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "testing"

func TestNewRequest(t *testing.T) {
	req, err := NewRequest("tools/call", []byte(`{"name":"a"}`))
	if err != nil {
		t.Fatal(err)
	}
	if name, ok := req.Params.Text(FieldName); !ok || name != "a" || req.Method != "tools/call" || req.Client == nil {
		t.Errorf("%+v", req)
	}
	if req, err = NewRequest("ping", nil); err != nil || !req.Params.IsZero() {
		t.Errorf("without params: %+v, %v", req, err)
	}
	if _, err = NewRequest("ping", []byte(`[]`)); err == nil {
		t.Error("an array is taken for params")
	}
}

func TestNewNotification(t *testing.T) {
	n, err := NewNotification("notifications/progress", []byte(`{"progressToken":"t","progress":3}`))
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := n.Params.Int(FieldProgress); !ok || p != 3 || n.Method != "notifications/progress" {
		t.Errorf("%+v", n)
	}
	if _, err = NewNotification("x", []byte(`{`)); err == nil {
		t.Error("half an object is taken for params")
	}
}

// "For backward compatibility with servers implementing earlier protocol
// versions, which do not include resultType, clients MUST treat an absent
// resultType as "complete"" (2026-07-28, basic, "ResultType"): J8.
//
// J8+ 2026-07-28 basic/index: "For backward compatibility with servers implementing
// earlier protocol versions, which do not include `resultType`, clients **MUST** treat
// an absent `resultType` as `"complete"`."
func TestResultType(t *testing.T) {
	for raw, want := range map[string]string{
		`{}`:                              ResultComplete,
		`{"resultType":"complete"}`:       ResultComplete,
		`{"resultType":"input_required"}`: ResultInputRequired,
		`{"resultType":"tas\u006b"}`:      "task",
		`{"resultType":""}`:               "",
		`{"resultType":null}`:             "null",
		`{"resultType":["complete"]}`:     `["complete"]`,
	} {
		r, err := NewResult([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Type(); got != want {
			t.Errorf("%s: type %q, want %q", raw, got, want)
		}
	}
	if _, err := NewResult([]byte(`{"a":1}x`)); err == nil {
		t.Error("a result with something behind it is taken")
	}
}

// The checks on the path of every call do not allocate in the usual cases.
func TestOrdinaryResultsAndHeadersDoNotAllocate(t *testing.T) {
	r, err := NewResult([]byte(`{"content":[],"resultType":"complete"}`))
	if err != nil {
		t.Fatal(err)
	}
	headers, arguments := map[string][]string{}, []byte(`{"a":1}`)
	got := testing.AllocsPerRun(100, func() {
		if r.Type() != ResultComplete {
			t.Fatal(r.Type())
		}
		if err := CheckParamHeaders(nil, headers, arguments); err != nil {
			t.Fatal(err)
		}
	})
	if got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}
