// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"bytes"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan/jsontest"
)

// A text is read as itself, however it is spelled, and encoded text is read again.
//
// J1+ 2025-11-25 basic/transports: "JSON-RPC messages **MUST** be UTF-8 encoded."
func TestTextRoundTrip(t *testing.T) {
	r := jsontest.Seeded(1)
	for range 2_000 {
		want := jsontest.RandomText(r)
		spelled := jsontest.EscapedText(r, want)
		if got, ok := DecodeText([]byte(spelled)); !ok || got != want {
			t.Fatalf("%s: %q, %v; want %q", spelled, got, ok, want)
		}
		if plain := jsontest.PlainText([]byte(spelled)); plain != want {
			t.Fatalf("%s: the oracle reads %q, want %q", spelled, plain, want)
		}
		written := AppendString(nil, want)
		if got, ok := DecodeText(written); !ok || got != want || !jsontest.IsJSON(written) {
			t.Fatalf("AppendString(%q) = %s, which reads %q", want, written, got)
		}
	}
}

// "Integer values MUST be within the safe range for JavaScript (-2^53+1 to
// 2^53-1)" (same page, "Schema Extension").
//
// H11- 2026-07-28 basic/transports/streamable-http: "Integer values MUST be within the
// safe range for JavaScript"
func TestSafeInteger(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "-0": "0", "0.0": "0", "0e999999": "0", "-0.000e5": "0", "7": "7", "-7": "-7",
		"42.0": "42", "42.00e0": "42", "4.2e1": "42", "4.2E+1": "42", "420e-1": "42", "0.042e3": "42", "-420.0e-1": "-42",
		"9007199254740991": "9007199254740991", "-9007199254740991": "-9007199254740991",
		"9.007199254740991e15": "9007199254740991", "900719925474099100e-2": "9007199254740991", "1e15": "1000000000000000",
		"9007199254740992": "", "-9007199254740992": "", "1e16": "", "1e400": "", "1e999999999999999999999": "",
		"1e-1": "", "1.5": "", "0.1": "", "4.25e1": "", "10e-2": "", "1e-400": "",
		"": "", "-": "", "+1": "", "01": "", "1.": "", ".5": "", "0x10": "", "1_0": "", " 1": "", "1 ": "", "NaN": "", "1e": "",
		strings.Repeat("1", 65): "", "0." + strings.Repeat("0", 70): "",
	} {
		got, ok := SafeInteger([]byte(in))
		if got != want || ok != (want != "") {
			t.Errorf("SafeInteger(%q) = %q, %v; want %q", in, got, ok, want)
		}
	}
}

// A number is an integer exactly if exact arithmetic agrees.
func TestSafeIntegerRandom(t *testing.T) {
	limit := new(big.Int).SetUint64(1<<53 - 1)
	r := jsontest.Seeded(6)
	digits := func(n int) string {
		b := make([]byte, 1+r.IntN(n))
		for i := range b {
			b[i] = byte('0' + r.IntN(10))
		}
		return string(b)
	}
	for range 5_000 {
		token := strings.TrimLeft(digits(18), "0")
		if token == "" {
			token = "0"
		}
		if r.IntN(2) == 0 {
			token += "." + digits(6)
		}
		if r.IntN(2) == 0 {
			token += "e" + []string{"", "+", "-"}[r.IntN(3)] + digits(2)
		}
		if r.IntN(2) == 0 {
			token = "-" + token
		}
		exact, ok := new(big.Rat).SetString(token)
		want := ""
		if ok && exact.IsInt() && new(big.Int).Abs(exact.Num()).Cmp(limit) <= 0 {
			want = exact.Num().String()
		}
		if got, _ := SafeInteger([]byte(token)); got != want {
			t.Fatalf("SafeInteger(%s) = %q, want %q", token, got, want)
		}
	}
}

// A sequence of edits, one after the other, has the same result as one edit of all of
// them.
func TestEditsInSequence(t *testing.T) {
	r := jsontest.Seeded(7)
	for range 1_500 {
		in := randomObject(r, 0)
		o, err := ParseObject([]byte(in), LevelResult)
		if err != nil {
			t.Fatal(err)
		}
		code := make([]byte, 1+r.IntN(6))
		for i := range code {
			code[i] = byte(r.UintN(256))
		}
		e := editOf(script(code)...)
		step := o
		for _, c := range e.all() { // the later of two changes of one member
			if step, err = editOf(op{c.field, string(c.value)}).Apply(&step); err != nil {
				t.Fatalf("%v of %s: %v", c, step.Bytes(), err)
			}
		}
		// A _meta that becomes empty on the way remains, and one that was never made is
		// absent: the remaining members count.
		once := canonical(t, e.AppendTo(nil, &o))
		if got := canonical(t, step.Bytes()); dropEmpty(got) != dropEmpty(once) {
			t.Fatalf("%v of %s:\none by one %s\nat once    %s", e.all(), in, got, once)
		}
	}
}

func dropEmpty(object string) string {
	for _, empty := range []string{`"_meta":{}`, `"ref":{}`} {
		object = strings.NewReplacer(","+empty, "", empty+",", "", empty, "").Replace(object)
	}
	return object
}

// All bytes that an edit does not replace are kept, including white space.
func TestEditKeepsAllOtherBytes(t *testing.T) {
	r := jsontest.Seeded(8)
	for range 2_000 {
		head, tail := randomMembers(r, "h"), randomMembers(r, "t")
		value := []string{`"old"`, `{"a":[1,2]}`, `7`, `null`}[r.IntN(4)]
		space := []string{"", " ", "\n\t"}[r.IntN(3)]
		in := "{" + head + space + `"name"` + space + ":" + space
		out := space + tail + "}"
		var e Edit
		e.Set(FieldName, []byte(`"new"`))
		got := e.AppendTo(nil, parsed(t, in+value+out))
		if want := in + `"new"` + out; string(got) != want {
			t.Fatalf("%s: %q, want %q", in+value+out, got, want)
		}
		if changed := parsed(t, string(got)); !bytes.Equal(changed.Raw(FieldName), []byte(`"new"`)) {
			t.Fatalf("%s: the name is %s", got, changed.Raw(FieldName))
		}
	}
}

// randomMembers are members that no level knows, before or after others.
func randomMembers(r *rand.Rand, prefix string) string {
	var b strings.Builder
	for i := range r.IntN(4) {
		member := string(AppendString(nil, prefix+strconv.Itoa(i)+jsontest.RandomText(r))) + " :\t" + []string{"1e400", `"}"`, "[ ]", "{}", "-0.0"}[r.IntN(5)]
		if prefix == "t" {
			b.WriteString(" , " + member)
		} else {
			b.WriteString(member + "\r\n,")
		}
	}
	return b.String()
}

// An edit never changes the order of an object's members, and appends new ones.
func TestEditKeepsTheOrder(t *testing.T) {
	r := jsontest.Seeded(9)
	for range 1_500 {
		in := randomObject(r, 0)
		before := namesOf(t, []byte(in))
		code := []byte{byte(r.UintN(256)), byte(r.UintN(256)), byte(r.UintN(256))}
		after := namesOf(t, editOf(script(code)...).AppendTo(nil, parsed(t, in)))
		kept := slices.DeleteFunc(slices.Clone(after), func(n string) bool { return !slices.Contains(before, n) })
		left := slices.DeleteFunc(slices.Clone(before), func(n string) bool { return !slices.Contains(after, n) })
		if !slices.Equal(kept, left) || !slices.Equal(after[:len(kept)], kept) {
			t.Fatalf("%v of %s: %q became %q", script(code), in, before, after)
		}
	}
}

func namesOf(t testing.TB, object []byte) []string {
	var out []string
	for _, m := range jsontest.Pairs(t, object) {
		out = append(out, m.Name)
	}
	return out
}
