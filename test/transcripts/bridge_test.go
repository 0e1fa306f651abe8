// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package transcripts_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

//go:generate go test -run ^TestBridgePageIsCurrent$ . -update

// bridgeFeature is one row of the table of docs/bridge.md: a feature that any client
// can use with any backend.
type bridgeFeature struct {
	name string
	// shows is what a transcript must show to prove it.
	shows string
}

// bridgeFeatures returns the rows, in their order.
func bridgeFeatures() []bridgeFeature {
	return []bridgeFeature{
		{"elicitation form", "a backend asks the user for data by a form, and goes on with the answer"},
		{"elicitation url", "a backend sends the user to a URL, and continues after the user accepts"},
		{"sampling", "a backend requests a completion by the client's model"},
		{"sampling tools", "the same with tools that the model may use"},
		{"roots", "a backend requests the client's roots"},
		{"several inputs at once", "a backend sends several requests, and all reach the client at the same time"},
		{"resource subscriptions", "subscribers of a resource receive its updates, and no other client does"},
		{"list changes", "a changed list is notified to the clients that listen"},
		{"logging", "log messages reach the request that enabled them, from its level on"},
		{"progress", "progress reaches the request that enabled it, under its own token"},
		{"cancel", "a cancelled request is cancelled at the backend"},
		{"results", "a result has the members that the client's revision requires, and is otherwise unmodified"},
		{"structured content", "structured content and output schemas reach every client in a form that it can read"},
		{"error codes", "an error has the code of the client's revision"},
		{"headers", "`Mcp-Method`, `Mcp-Name` and `Mcp-Param-*` are checked, and written again with the names of the next hop"},
		{"tasks", "a task of a backend is polled, given input, completed and cancelled by the client that created it, and a task of a client of 2025-11-25 by its backend"},
		{"capabilities", "the capabilities advertised to a client are those that work for it"},
		{"keys of questions", "an input request has the key of the backend, by which it can be answered before it is sent"},
		{"request state", "a request for input is continued by the retry with that input, and by no other request"},
	}
}

// bridgeField is one field: a feature for a client and a backend of these eras, over
// these transports.
type bridgeField struct {
	feature    string
	cell       string // "legacy/modern"
	transports string // "http/stdio"
}

func (f bridgeField) String() string { return f.feature + ": " + f.cell + " " + f.transports }

func bridgeCells() []string {
	return []string{"legacy/legacy", "legacy/modern", "modern/legacy", "modern/modern"}
}

func bridgeTransports() []string {
	return []string{"http/http", "http/stdio", "stdio/http", "stdio/stdio"}
}

// field returns the field of a pair of modes. A Handler in this process has no era and
// no transport, and proves nothing here. Neither does a client of an earlier revision,
// which may get something else instead: the fields are those of the last revision of
// each era.
func (p pair) field(feature string) (f bridgeField, ok bool) {
	out := map[string]string{"http": "http", "pipe": "stdio"}[p.out.transport]
	return bridgeField{feature, p.cell(), p.in.transport + "/" + out}, out != "" && !p.in.isRare()
}

// claim is a line of a transcript that names a feature:
//
//	proves: progress, cancel
//	instead: headers - what happens where there can be no headers
type claim struct {
	feature string
	reason  string // of "instead": why a revision or transport cannot have the feature
}

// readClaims reads the claims of a transcript's prose.
func readClaims(prose string) ([]claim, error) {
	var out []claim
	for line := range strings.Lines(prose) {
		key, rest, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok || key != "proves" && key != "instead" {
			continue
		}
		names, reason, hasReason := strings.Cut(rest, " - ")
		if reason = strings.TrimSpace(reason); hasReason != (key == "instead") || hasReason && reason == "" {
			return nil, fmt.Errorf("%q: a proof has no reason, and what happens instead has one", line)
		}
		for name := range strings.SplitSeq(names, ",") {
			name = strings.TrimSpace(name)
			if !slices.ContainsFunc(bridgeFeatures(), func(f bridgeFeature) bool { return f.name == name }) {
				return nil, fmt.Errorf("%q: no such feature: %q", line, name)
			}
			out = append(out, claim{name, reason})
		}
	}
	return out, nil
}

// bridgeProof is one transcript with claims, and the modes that it is played in.
type bridgeProof struct {
	transcript string
	claims     []claim
	pairs      []pair
}

func readProof(name, prose string) (bridgeProof, error) {
	claims, err := readClaims(prose)
	if err != nil {
		return bridgeProof{}, fmt.Errorf("%s: %w", name, err)
	}
	r, err := readRestrictions(prose)
	if err != nil {
		return bridgeProof{}, fmt.Errorf("%s: %w", name, err)
	}
	return bridgeProof{name, claims, r.pairs()}, nil
}

// bridgeProofs reads all transcripts. TestTranscript checks that each passes in all of
// its modes.
func bridgeProofs(t *testing.T) []bridgeProof {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	var out []bridgeProof
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		proof, err := readProof(strings.TrimSuffix(filepath.Base(file), ".txtar"), string(archive.Comment))
		if err != nil {
			t.Error(err)
		}
		if len(proof.claims) > 0 {
			out = append(out, proof)
		}
	}
	return out
}

// bridge is the table: the evidence for each field.
type bridge map[bridgeField]*bridgeEvidence

// bridgeEvidence lists the transcripts that show a feature in a field, and those that
// show what happens instead.
type bridgeEvidence struct {
	proved  []string
	instead []string
	reasons []string
}

func newBridge(proofs []bridgeProof) bridge {
	b := make(bridge)
	for _, proof := range proofs {
		for _, c := range proof.claims {
			for _, p := range proof.pairs {
				if f, ok := p.field(c.feature); ok {
					b.note(f, proof.transcript, c)
				}
			}
		}
	}
	return b
}

func (b bridge) note(f bridgeField, transcript string, c claim) {
	e := b[f]
	if e == nil {
		e = &bridgeEvidence{}
		b[f] = e
	}
	switch {
	case c.reason == "" && !slices.Contains(e.proved, transcript):
		e.proved = append(e.proved, transcript)
	case c.reason != "" && !slices.Contains(e.instead, transcript):
		e.instead, e.reasons = append(e.instead, transcript), append(e.reasons, c.reason)
	}
}

// problems returns the fields that are empty, and those that are claimed to be both
// impossible and proved.
func (b bridge) problems() []string {
	var out []string
	for _, f := range allFields() {
		switch e := b[f]; {
		case e == nil:
			out = append(out, f.String()+": no transcript proves it")
		case len(e.proved) > 0 && len(e.instead) > 0:
			out = append(out, fmt.Sprintf("%s: is proved by %q, and impossible by %q", f, e.proved, e.instead))
		}
	}
	return out
}

func fieldsOf(feature string) []bridgeField {
	var out []bridgeField
	for _, cell := range bridgeCells() {
		for _, transports := range bridgeTransports() {
			out = append(out, bridgeField{feature, cell, transports})
		}
	}
	return out
}

func allFields() []bridgeField {
	var out []bridgeField
	for _, f := range bridgeFeatures() {
		out = append(out, fieldsOf(f.name)...)
	}
	return out
}

// TestBridge checks that each feature works for each pair of eras over each pair of
// transports, or that a transcript shows what happens if it cannot.
func TestBridge(t *testing.T) {
	for _, problem := range newBridge(bridgeProofs(t)).problems() {
		t.Error(problem)
	}
}

func TestBridgeSeesWhatIsMissing(t *testing.T) {
	everywhere := func(features ...string) bridgeProof {
		p := bridgeProof{transcript: "all", pairs: restrictions{}.pairs()}
		for _, f := range features {
			p.claims = append(p.claims, claim{feature: f})
		}
		return p
	}
	var all []string
	for _, f := range bridgeFeatures() {
		all = append(all, f.name)
	}
	cells := restrictions{cells: [][]string{{"legacy/modern"}}, inbound: [][]string{{"stdio"}}}.pairs()
	but := all[1:]
	var row []string
	for _, f := range fieldsOf(all[0]) {
		row = append(row, f.String()+": no transcript proves it")
	}
	some := slices.DeleteFunc(slices.Clone(row), func(s string) bool { return strings.Contains(s, "legacy/modern stdio/") })
	for _, tt := range []struct {
		name   string
		proofs []bridgeProof
		want   []string
	}{
		{"all proved", []bridgeProof{everywhere(all...)}, nil},
		{"a row is empty", []bridgeProof{everywhere(but...)}, row},
		{"some fields are", []bridgeProof{everywhere(but...), {"some", []claim{{feature: all[0]}}, cells}}, some},
		{"claimed to be impossible", []bridgeProof{everywhere(but...), {"some", []claim{{all[0], "why"}}, cells}}, some},
		{
			"proved and impossible",
			[]bridgeProof{everywhere(all...), {"not", []claim{{all[0], "why"}}, cells[:1]}},
			[]string{all[0] + `: legacy/modern stdio/http: is proved by ["all"], and impossible by ["not"]`},
		},
	} {
		if got := newBridge(tt.proofs).problems(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestBridgeClaims(t *testing.T) {
	got, err := readClaims("Prose that proves: nothing.\nproves: progress, cancel\ninbound: http - why\ninstead: headers - a pipe has none\n")
	want := []claim{{feature: "progress"}, {feature: "cancel"}, {"headers", "a pipe has none"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("claims %v, %v; want %v", got, err, want)
	}
	for _, prose := range []string{"proves: magic", "proves: progress - why", "instead: headers", "instead: headers - "} {
		if got, err := readClaims(prose); err == nil {
			t.Errorf("%q is taken for %v", prose, got)
		}
	}
}
