// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan/jsontest"
)

// inside reports whether part shares the memory of whole.
func inside(whole, part []byte) bool {
	if len(part) == 0 {
		return false
	}
	from, at := uintptr(unsafe.Pointer(&whole[0])), uintptr(unsafe.Pointer(&part[0]))
	return at >= from && at+uintptr(len(part)) <= from+uintptr(len(whole))
}

// A message is the bytes that arrived: checking and forwarding use the same bytes in
// the same place (I40, I42).
func TestPartsShareTheMessage(t *testing.T) {
	data := []byte(jsontest.ModernCall)
	m, err := Parse(data, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if !inside(data, m.Raw) || !inside(data, m.Params.Bytes()) {
		t.Error("the message or its params are a copy")
	}
	for f := FieldName; f < endOfFields; f++ {
		raw := m.Params.Raw(f)
		if m.Params.Has(f) && !inside(data, raw) {
			t.Errorf("%s is a copy", f.Key())
		}
		// Appending to a part must not overwrite the text after it.
		if _ = append(raw, "XXXX"...); string(data) != jsontest.ModernCall {
			t.Fatalf("appending to %s changed the message: %s", f.Key(), data)
		}
	}
}

// Ids and methods outlive their message: tables keep them after its buffer is gone.
func TestIDAndMethodAreCopies(t *testing.T) {
	for _, tt := range []struct{ id, method string }{
		{`7`, "tools/call"}, {`"short"`, "acme/own"}, {`"` + strings.Repeat("long", 20) + `"`, "notifications/x"},
	} {
		data := []byte(`{"jsonrpc":"2.0","id":` + tt.id + `,"method":"` + tt.method + `"}`)
		m, err := Parse(data, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		clear(data)
		if m.ID.String() != tt.id || m.Method != tt.method {
			t.Errorf("after the buffer is gone: id %q, method %q; want %q, %q", m.ID, m.Method, tt.id, tt.method)
		}
	}
}

// Texts are copies too: a name kept by a catalog must not keep a message of megabytes
// in memory.
func TestTextsAreCopies(t *testing.T) {
	data := []byte(`{"name":"plain","uri":"\u0065scaped"}`)
	o, err := ParseObject(data)
	if err != nil {
		t.Fatal(err)
	}
	name, _ := o.Text(FieldName)
	uri, _ := o.Text(FieldURI)
	clear(data)
	if name != "plain" || uri != "escaped" {
		t.Errorf("after the buffer is gone: %q, %q", name, uri)
	}
}

// One object and one edit may be used concurrently: a list is stored once and sent to
// every client, each with its own changes.
func TestConcurrentReaders(t *testing.T) {
	o := parsed(t, `{"tools":[1,2,3],"_meta":{"a":1},"nextCursor":"x"}`)
	var shared Edit
	shared.Delete(FieldNextCursor)
	shared.SetText(MetaServerInfo, "s")
	const want = `{"tools":[1,2,3],"_meta":{"a":1,"io.modelcontextprotocol/serverInfo":"s"}}`
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { // ends by itself; wg waits
			for range 50 {
				changed, err := shared.Apply(o)
				if err != nil || string(changed.Bytes()) != want {
					t.Errorf("%s, %v; want %s", changed.Bytes(), err, want)
					return
				}
				if cursor, ok := o.Text(FieldNextCursor); !ok || cursor != "x" {
					t.Errorf("the object that is shared has the cursor %q", cursor)
					return
				}
			}
		})
	}
	wg.Wait()
}

// The arguments of an edit may be reused by the caller: SetText copies, and AppendTo
// does not change its object and its values.
func TestEditLeavesItsArgumentsAlone(t *testing.T) {
	value, in := []byte(` {"a":1} `), []byte(`{"name":"x","_meta":{"b":2}}`)
	o, err := ParseObject(in)
	if err != nil {
		t.Fatal(err)
	}
	var e Edit
	e.Set(FieldMeta, value)
	e.SetText(MetaVersion, "v")
	e.Delete(FieldName)
	dst := make([]byte, 0, 512)
	for range 3 {
		dst = e.AppendTo(dst[:0], &o)
		if want := `{"_meta":{"a":1,"io.modelcontextprotocol/protocolVersion":"v"}}`; string(dst) != want {
			t.Fatalf("%s, want %s", dst, want)
		}
	}
	if string(value) != ` {"a":1} ` || string(in) != `{"name":"x","_meta":{"b":2}}` {
		t.Errorf("changed: value %s, object %s", value, in)
	}
}

// The zero values behave as documented.
func TestZeroValues(t *testing.T) {
	var (
		o Object
		e Edit
		l Limits
		m Message
	)
	if got := string(e.AppendTo(nil, &o)); got != "{}" {
		t.Errorf("no edit of no object: %s", got)
	}
	if _, err := Parse([]byte(jsontest.SmallCall), l); err != nil {
		t.Errorf("with no limits given: %v", err)
	}
	if m.Kind != KindInvalid || m.Kind.String() != "invalid" || !m.ID.IsZero() || !m.Params.IsZero() {
		t.Errorf("the zero message is %+v", m)
	}
	if _, err := m.WireError(); err == nil {
		t.Error("the zero message has an error")
	}
	res, err := NewResult(nil)
	if err != nil || !res.IsZero() || res.Type() != ResultComplete {
		t.Errorf("a result of nothing: %+v, %v", res, err)
	}
}
