// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package requests

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/cmd/signalbox/internal/command"
)

const order = `{"message":"Your order","requestedSchema":{"type":"object","properties":{
	"name":{"type":"string","title":"Name","description":"of yours","minLength":2,"maxLength":5},
	"size":{"type":"string","enum":["s","m","l"],"default":"m"},
	"colour":{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"b","title":"Blue"}]},
	"count":{"type":"integer","minimum":1,"maximum":9},
	"weight":{"type":"number"},
	"gift":{"type":"boolean"},
	"extras":{"type":"array","items":{"anyOf":[{"const":"x","title":"Extra"},{"const":"y"}]}}
	},"required":["name","gift"]}}`

// script answers prompts with its lines, and records the prompts.
type script struct {
	lines   []string
	prompts []string
}

func (s *script) prompt(_ context.Context, text string) (string, error) {
	s.prompts = append(s.prompts, text)
	if len(s.lines) == 0 {
		return "", io.EOF
	}
	line := s.lines[0]
	s.lines = s.lines[1:]
	return line, nil
}

func TestFormIsFilledIn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		lines []string
		want  string
	}{
		{"everything", []string{"Ada", "l", "b", "3", "1.50", "yes", "x, y"},
			`{"action":"accept","content":{"name":"Ada","size":"l","colour":"b","count":3,"weight":1.50,"gift":true,"extras":["x","y"]}}`},
		{"only what is required", []string{" Ada ", "", "", "", "", "N", ""},
			`{"action":"accept","content":{"name":"Ada","size":"m","gift":false}}`},
		{"by titles", []string{"A\"b", "", "red", "", "", "true", "extra"},
			`{"action":"accept","content":{"name":"A\"b","size":"m","colour":"r","gift":true,"extras":["x"]}}`},
		{"end of input", []string{"Ada", ""}, `{"action":"decline"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, err := parseForm([]byte(order))
			if err != nil {
				t.Fatal(err)
			}
			got, err := f.ask(t.Context(), (&script{lines: tt.lines}).prompt)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(got), tt.want); diff != "" {
				t.Errorf("result (-got +want):\n%s", diff)
			}
		})
	}
}

func TestFormAsksUntilTheAnswerFits(t *testing.T) {
	t.Parallel()
	f, err := parseForm([]byte(order))
	if err != nil {
		t.Fatal(err)
	}
	s := &script{lines: []string{
		"", "A", "Ada Lovelace", "Ada",
		"xl", "s",
		"green", "Blue",
		"many", "1.5", "0", "10", "01", "9",
		"1e999", "2e3",
		"perhaps", "", "no",
		"x, z", "y",
	}}
	got, err := f.ask(t.Context(), s.prompt)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"action":"accept","content":{"name":"Ada","size":"s","colour":"b","count":9,"weight":2e3,"gift":false,"extras":["y"]}}`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	wantPrompts := []string{
		"Name (of yours):",
		"An answer is required. Name (of yours):",
		"At least 2 characters are needed. Name (of yours):",
		"At most 5 characters are possible. Name (of yours):",
		`size [s, m, l] default "m":`,
		`"xl" is not one of s, m, l. size [s, m, l] default "m":`,
		"colour [r = Red, b = Blue] (optional):",
		`"green" is not one of r = Red, b = Blue. colour [r = Red, b = Blue] (optional):`,
		"count (optional):",
		"That is not a number. count (optional):",
		"That is not a whole number. count (optional):",
		"The least is 1. count (optional):",
		"The most is 9. count (optional):",
		"That is not a number. count (optional):",
		"weight (optional):",
		"That is not a number. weight (optional):",
		"gift [y/n]:",
		"That is neither yes nor no. gift [y/n]:",
		"An answer is required. gift [y/n]:",
		"extras [x = Extra, y; several with commas] (optional):",
		`"z" is not one of x = Extra, y. extras [x = Extra, y; several with commas] (optional):`,
	}
	if diff := cmp.Diff(s.prompts, wantPrompts); diff != "" {
		t.Errorf("prompts (-got +want):\n%s", diff)
	}
}

func TestFormWithoutFields(t *testing.T) {
	t.Parallel()
	f, err := parseForm([]byte(`{"mode":"form","message":"Sure?"}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := f.ask(t.Context(), (&script{}).prompt)
	if want := `{"action":"accept","content":{}}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func TestFormThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, params, want string }{
		{"address", `{"mode":"url","message":"m","url":"https://a.example/"}`, `mode "url"`},
		{"properties", `{"requestedSchema":{"properties":[]}}`, "the properties are not an object"},
		{"property", `{"requestedSchema":{"properties":{"a":{"type":7}}}}`, `the property "a"`},
		{"message", `{"message":7}`, "message"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if _, err := parseForm([]byte(tt.params)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestFormEndsWithTheCall(t *testing.T) {
	t.Parallel()
	f, err := parseForm([]byte(order))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, w := io.Pipe() // there is no input
	defer w.Close()
	defer r.Close()
	_, err = f.ask(ctx, func(ctx context.Context, _ string) (string, error) { return command.ReadLine(ctx, r) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
}

// FuzzForm checks that no form of a server makes the command fail, and that the answers are
// sent as the JSON required by the specification (2026-07-28, client/elicitation, "Response
// Actions").
func FuzzForm(f *testing.F) {
	f.Add(order, "Ada\nl\nred\n3\n1.50\ny\nx, y")
	f.Add(order, "")
	f.Add(`{"message":"m","requestedSchema":{"properties":{"a":{"type":"number"}},"required":["a"]}}`, "x\n01\n1e999\n-0")
	f.Add(`{"requestedSchema":{"properties":{"\u001b":{"type":"array","items":{"enum":["\"",","]}}}}}`, "\",,")
	f.Add(`{"requestedSchema":{"properties":{"a":{"type":"boolean","default":{"not": "a boolean"}}}}}`, "\n")
	f.Fuzz(func(t *testing.T, params, typed string) {
		form, err := parseForm([]byte(params))
		if err != nil {
			return
		}
		got, err := form.ask(t.Context(), (&script{lines: strings.Split(typed, "\n")}).prompt)
		if err != nil {
			t.Fatalf("a form ended with %v", err)
		}
		var answer struct {
			Action  string                     `json:"action"`
			Content map[string]json.RawMessage `json:"content"`
		}
		if err := json.Unmarshal(got, &answer); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		if answer.Action != "accept" && answer.Action != "decline" {
			t.Errorf("the action is %q", answer.Action)
		}
		if answer.Action == "decline" && answer.Content != nil {
			t.Errorf("declined, and sent %s", got)
		}
	})
}
