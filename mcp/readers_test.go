// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan/jsontest"
)

// All readers agree on accepted messages: one that ignores the case of names and takes
// the last duplicate (encoding/json), one that takes the first, and a strict one. Parse
// rejects messages on which they could differ (CVE-2026-27896, GHSA-4gph-2hhr-5mwg: a
// proxy checked one name and the server behind it read another).

// seenCall is the part of a message that a reader uses for routing and policy.
type seenCall struct {
	Method, Name, URI, RefName string
}

// folding reads like encoding/json. The tags are the protocol's names; the library
// matches them in any letter case.
func folding(t testing.TB, data []byte) seenCall {
	t.Helper()
	var m struct {
		Method string `json:"method"`
		Params struct {
			Name json.RawMessage `json:"name"`
			URI  json.RawMessage `json:"uri"`
			Ref  json.RawMessage `json:"ref"`
		} `json:"params"`
	}
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	seen := seenCall{Method: m.Method, Name: jsontest.PlainText(m.Params.Name), URI: jsontest.PlainText(m.Params.URI)}
	var ref struct {
		Name json.RawMessage `json:"name"`
	}
	if len(m.Params.Ref) > 0 && m.Params.Ref[0] == '{' {
		if err := json.Unmarshal(m.Params.Ref, &ref); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
	}
	seen.RefName = jsontest.PlainText(ref.Name)
	return seen
}

// strict reads like encoding/json/v2, except for duplicates below the interpreted
// levels.
func strict(t testing.TB, data []byte) seenCall {
	t.Helper()
	var m struct {
		Method string                    `json:"method"`
		Params map[string]jsontext.Value `json:"params"`
	}
	if err := jsonv2.Unmarshal(data, &m, jsontext.AllowDuplicateNames(true), jsonv2.MatchCaseInsensitiveNames(false)); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	seen := seenCall{Method: m.Method, Name: jsontest.PlainText(m.Params["name"]), URI: jsontest.PlainText(m.Params["uri"])}
	if ref := m.Params["ref"]; len(ref) > 0 && ref.Kind() == '{' {
		v, _ := jsontest.Lookup(jsontest.Pairs(t, ref), "name")
		seen.RefName = jsontest.PlainText(v)
	}
	return seen
}

// ours returns the parts that Parse found.
func ours(m *Message) seenCall {
	seen := seenCall{Method: m.Method}
	seen.Name, _ = m.Params.Text(FieldName)
	seen.URI, _ = m.Params.Text(FieldURI)
	seen.RefName, _ = m.Params.Text(FieldRefName)
	return seen
}

func checkReaders(t testing.TB, data []byte) (accepted bool) {
	t.Helper()
	m, err := Parse(data, Limits{})
	if err != nil || m.Kind != KindRequest && m.Kind != KindNotification {
		return false
	}
	want := ours(&m)
	if got := folding(t, data); got != want {
		t.Fatalf("%s: we read %+v, a reader that ignores case %+v", data, want, got)
	}
	if got := strict(t, data); got != want {
		t.Fatalf("%s: we read %+v, a strict reader %+v", data, want, got)
	}
	return true
}

// trick spells a name in one of the ways on which readers have disagreed.
func trick(r *rand.Rand, name string) string {
	i := r.IntN(len(name))
	switch r.IntN(12) {
	case 0:
		return strings.ToUpper(name)
	case 1:
		return name[:i] + strings.ToUpper(name[i:i+1]) + name[i+1:]
	case 2:
		return name[:i] + `\u00` + hexOf(name[i]) + name[i+1:]
	case 3:
		return name[:i] + `\u00` + strings.ToUpper(hexOf(strings.ToUpper(name[i : i+1])[0])) + name[i+1:]
	case 4:
		return strings.NewReplacer("s", "\u017f", "k", "\u212a").Replace(name)
	case 5:
		return strings.NewReplacer("s", `\u017f`, "k", `\u212A`).Replace(name)
	case 6:
		return name + []string{" ", `\u0000`, "s", "\u200b"}[r.IntN(4)]
	default:
		return name
	}
}

func hexOf(c byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[c>>4], digits[c&15]})
}

// trickyObject has members with the given names, tricked, in any order and number.
func trickyObject(r *rand.Rand, names []string, value func(name string) string) string {
	var members []string
	for range 1 + r.IntN(len(names)+1) {
		name := names[r.IntN(len(names))]
		members = append(members, `"`+trick(r, name)+`":`+value(name))
	}
	return "{" + strings.Join(members, ",") + "}"
}

func trickyMessage(r *rand.Rand) string {
	texts := []string{`"good"`, `"evil"`, `"e\u0076il"`, `7`, `null`, `{"name":"evil"}`}
	text := func(string) string { return texts[r.IntN(len(texts))] }
	params := func() string {
		return trickyObject(r, []string{"name", "uri", "ref", "task", "arguments", "other"}, func(name string) string {
			if name == "ref" && r.IntN(3) > 0 {
				return trickyObject(r, []string{"type", "name", "uri"}, text)
			}
			return text(name)
		})
	}
	var rest []string
	for range r.IntN(3) {
		rest = append(rest, `"`+trick(r, []string{"method", "params", "id", "jsonrpc", "x"}[r.IntN(5)])+`":`+[]string{`"evil"`, `{"name":"evil"}`, `2`}[r.IntN(3)])
	}
	base := []string{`"jsonrpc":"2.0"`, `"id":1`, `"` + trick(r, "method") + `":"tools/call"`, `"` + trick(r, "params") + `":` + params()}
	all := append(base, rest...)
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return "{" + strings.Join(all, ",") + "}"
}

func TestReadersAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(27896, 5304))
	accepted := 0
	const n = 5_000
	for range n {
		if checkReaders(t, []byte(trickyMessage(r))) {
			accepted++
		}
	}
	// Few enough tricks that some messages are accepted, and enough that most are
	// rejected: otherwise the test is useless.
	if accepted < n/50 || accepted > n/2 {
		t.Errorf("%d of %d messages were accepted", accepted, n)
	}
}

// All readers agree on the messages of the tables, too.
func TestReadersAgreeOnTheTables(t *testing.T) {
	accepted := 0
	for _, tt := range goodMessages() {
		if !strings.Contains(tt.in, `\ud800`) && checkReaders(t, []byte(tt.in)) { // the strict reader rejects it
			accepted++
		}
	}
	for _, tt := range badMessages() {
		if checkReaders(t, []byte(tt.in)) {
			t.Errorf("%s is accepted", tt.in)
		}
	}
	if accepted < 10 {
		t.Errorf("only %d messages were compared", accepted)
	}
}

func FuzzReaders(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		f.Add([]byte(trickyMessage(r)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !jsontest.HasHalf(data) {
			checkReaders(t, data)
		}
	})
}
