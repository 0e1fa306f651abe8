// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package pins

import (
	"encoding/json"
	"strings"
	"testing"
)

// A definition for clients that render apps is judged by its own line, and by that for other clients where it has none
// or is that one. A line for clients that render apps approves nothing for others.
func TestJudgeFaces(t *testing.T) {
	const (
		plain  = `{"name":"show","description":"Shows as text.","inputSchema":{"type":"object"}}`
		ui     = `{"name":"show","description":"Shows a page.","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://show"}}}`
		text   = `{"name":"show","description":"ATTACK","inputSchema":{"type":"object"}}`
		schema = `{"name":"show","inputSchema":{"type":"object","properties":{"ATTACK":{}}}}`
		hidden = "{\"name\":\"show\",\"description\":\"Shows a page.\u200b\",\"inputSchema\":{\"type\":\"object\"}}"
	)
	d := NewDigester(nil)
	texts := func(of Digest) ([]byte, bool) {
		for _, text := range []string{plain, ui} {
			if d.Of([]byte(text)) == of {
				return []byte(text), true
			}
		}
		return nil, false
	}
	lock := func(lines map[Face]string) *Lock {
		l := NewLock()
		for face, text := range lines {
			l.Approve(Key{"maps", Tool, "show", face}, d.Of([]byte(text)))
		}
		return l
	}
	both, onePlain, oneUI := lock(map[Face]string{Plain: plain, UI: ui}), lock(map[Face]string{Plain: plain}), lock(map[Face]string{UI: ui})
	for _, tt := range []struct {
		name       string
		lock       *Lock
		face       Face
		definition string
		policy     Policy
		state      State
		use        string // "" for held
	}{
		{"both, plain", both, Plain, plain, Policy{}, Approved, plain},
		{"both, ui", both, UI, ui, Policy{}, Approved, ui},
		{"both, text changed, plain", both, Plain, text, Policy{}, Frozen, plain},
		{"both, text changed, ui", both, UI, text, Policy{}, Frozen, ui},
		{"both, text changed, ui, hold", both, UI, text, Policy{Changed: Hold}, Changed, ""},
		{"both, text changed, ui, warn", both, UI, text, Policy{Changed: Warn}, Changed, text},
		{"both, schema changed, ui", both, UI, schema, Policy{}, Changed, ""},
		{"both, hidden text, ui", both, UI, hidden, Policy{}, Frozen, ui},
		{"both, the ui one to other clients", both, Plain, ui, Policy{}, Frozen, plain},
		{"both, the plain one again, ui", both, UI, plain, Policy{}, Approved, plain},
		{"plain line, the same, ui", onePlain, UI, plain, Policy{}, Approved, plain},
		{"plain line, another, ui", onePlain, UI, ui, Policy{}, Frozen, plain},
		{"plain line, another, ui, new allowed", onePlain, UI, ui, Policy{AllowNew: true}, Frozen, plain},
		{"plain line, another, ui, hold", onePlain, UI, ui, Policy{Changed: Hold}, Changed, ""},
		{"plain line, another schema, ui", onePlain, UI, schema, Policy{}, Changed, ""},
		{"plain line, another schema, ui, new allowed", onePlain, UI, schema, Policy{AllowNew: true}, Changed, ""},
		{"ui line, ui", oneUI, UI, ui, Policy{}, Approved, ui},
		{"ui line, the same, plain", oneUI, Plain, ui, Policy{}, New, ""},
		{"ui line, text changed, plain", oneUI, Plain, text, Policy{}, New, ""},
		{"none, ui", NewLock(), UI, ui, Policy{}, New, ""},
		{"none, ui, allowed", NewLock(), UI, ui, Policy{AllowNew: true}, New, ui},
		{"no file, ui", nil, UI, ui, Policy{}, Unpinned, ui},
		{"no file, ui, hidden text", nil, UI, hidden, Policy{}, Unpinned, ""},
	} {
		v := tt.lock.Judge(Key{"maps", Tool, "show", tt.face}, json.RawMessage(tt.definition), d, texts, tt.policy)
		if v.State != tt.state || string(v.Use) != tt.use {
			t.Errorf("%s: %s, %s; want %s, %s", tt.name, v.State, v.Use, tt.state, tt.use)
		}
	}
}

// A tool has one line or two, one below the other. Files without the second are read as before.
func TestLockFileOfFaces(t *testing.T) {
	d := NewDigester(nil)
	one, other := d.Of([]byte("1")), d.Of([]byte("2"))
	l := NewLock()
	l.SetServer("maps", Server{Name: "map-server", Version: "1"})
	l.Approve(Key{"maps", Tool, "ui", UI}, one)
	l.Approve(Key{"maps", Tool, "show", UI}, other)
	l.Approve(Key{"maps", Tool, "show", Plain}, one)
	l.Approve(Key{"maps", Tool, "showy", Plain}, one)
	want := "\nserver maps map-server 1\ntool show " + one.String() + "\ntool show ui " + other.String() + "\ntool showy " + one.String() + "\ntool ui ui " + one.String() + "\n"
	if got := string(l.Format()); got != head+want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	back, err := Parse([]byte(want))
	if err != nil || string(back.Format()) != head+want {
		t.Errorf("read as %s, %v", back.Format(), err)
	}
	for text, want := range map[string]string{
		"tool x ui":                                                 "line 2: the digest is not",
		"tool x UI " + one.String():                                 "line 2: a line is a kind",
		"tool x app " + one.String():                                "line 2: a line is a kind",
		"page ui://x ui " + one.String():                            "line 2: a line is a kind",
		"prompt x ui " + one.String():                               "line 2: a line is a kind",
		"tool x ui ui " + one.String():                              "line 2: a line is a kind",
		"tool x ui " + one.String() + "\ntool x ui " + one.String(): "line 3: tool x of a (for clients that render apps) is in it twice",
	} {
		if _, err := Parse([]byte("server a b c\n" + text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
