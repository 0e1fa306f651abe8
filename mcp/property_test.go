// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"bytes"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// seeded returns the same random numbers in each run, to reproduce failures.
func seeded(n uint64) *rand.Rand { return rand.New(rand.NewPCG(2026_07_28, n)) }

// randomText has characters that are difficult to encode: quotes, escapes, control
// characters, the limits of UTF-8, unpaired surrogates.
func randomText(r *rand.Rand) string {
	parts := []string{
		"", "a", "Z", " ", "\t", "\n", "\r", "\x00", "\x1f", "\x7f", `"`, `\`, "/", "'", "<", "&", "=?base64?", "?=", "é", "ß", "\u0080",
		"\u07ff", "\u0800", "\u2028", "\ufeff", "\ufffd", "\uffff", "世", "🎉", "\U0010ffff", "http://x/?a=b#c", "-1", "1e9", "..",
	}
	var b strings.Builder
	for range r.IntN(6) {
		b.WriteString(parts[r.IntN(len(parts))])
	}
	return b.String()
}

// escapedText spells a text as a JSON string in a random way.
func escapedText(r *rand.Rand, s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c >= 0x10000 && r.IntN(2) == 0:
			c -= 0x10000
			b.WriteString(`\u` + hex16(r, 0xd800+c>>10) + `\u` + hex16(r, 0xdc00+c&0x3ff))
		case c < 0x10000 && (r.IntN(3) == 0 || c < ' ' || c == '"' || c == '\\'):
			b.WriteString(`\u` + hex16(r, c))
		default:
			b.WriteRune(c)
		}
	}
	return b.String() + `"`
}

func hex16(r *rand.Rand, c rune) string {
	s := "000" + strconv.FormatInt(int64(c), 16)
	s = s[len(s)-4:]
	if r.IntN(2) == 0 {
		return strings.ToUpper(s)
	}
	return s
}

// A text is read as itself, however it is spelled, and encoded text is read again.
//
// J1+ 2025-11-25 basic/transports: "JSON-RPC messages **MUST** be UTF-8 encoded."
func TestTextRoundTrip(t *testing.T) {
	r := seeded(1)
	for range 2_000 {
		want := randomText(r)
		spelled := escapedText(r, want)
		if got, ok := decodeText([]byte(spelled)); !ok || got != want {
			t.Fatalf("%s: %q, %v; want %q", spelled, got, ok, want)
		}
		if plain := plainText([]byte(spelled)); plain != want {
			t.Fatalf("%s: the oracle reads %q, want %q", spelled, plain, want)
		}
		written := AppendString(nil, want)
		if got, ok := decodeText(written); !ok || got != want || !isJSON(written) {
			t.Fatalf("AppendString(%q) = %s, which reads %q", want, written, got)
		}
	}
}

func randomID(r *rand.Rand) ID {
	switch r.IntN(4) {
	case 0:
		return NumberID(r.Uint64() >> r.IntN(64))
	case 1:
		return StringID(strings.Repeat("x", r.IntN(60)))
	case 2:
		id, err := ParseID([]byte(escapedText(r, randomText(r))))
		if err != nil {
			return NumberID(1)
		}
		return id
	default:
		id, err := ParseID([]byte("-" + strings.Repeat("9", 1+r.IntN(40))))
		if err != nil {
			return NumberID(2)
		}
		return id
	}
}

// An id passes through a request, its result and its error, and is the same token at
// the end (J5: "the same ID as the request they correspond to").
func TestIDRoundTrip(t *testing.T) {
	r := seeded(2)
	for range 2_000 {
		id := randomID(r)
		asked, err := Parse(AppendRequest(nil, id, "ping", nil), Limits{})
		if err != nil || asked.ID != id {
			t.Fatalf("%s came as %s, %v", id, asked.ID, err)
		}
		for _, answer := range [][]byte{AppendResult(nil, asked.ID, nil), AppendError(nil, asked.ID, Errorf(1, "%s", randomText(r)))} {
			m, err := Parse(answer, Limits{})
			if err != nil || m.ID != id || m.ID.String() != id.String() {
				t.Fatalf("%s came back in %s as %s, %v", id, answer, m.ID, err)
			}
		}
	}
}

// Two ids are equal exactly if their tokens are: "a" and "\u0061" are two ids, because
// a peer may distinguish them (I4).
func TestIDsEqualByToken(t *testing.T) {
	r := seeded(3)
	byToken := map[string]ID{}
	for range 1_500 {
		id := randomID(r)
		if old, ok := byToken[id.String()]; ok && old != id {
			t.Fatalf("two ids for the token %s", id)
		}
		byToken[id.String()] = id
	}
	ids := map[ID]string{}
	for token, id := range byToken {
		if other, ok := ids[id]; ok {
			t.Fatalf("one id for %s and %s", token, other)
		}
		ids[id] = token
	}
}

// Any text can be encoded as a header and decoded, also twice: a text that looks
// encoded is encoded (H6).
func TestHeaderValueRoundTrip(t *testing.T) {
	r := seeded(4)
	for range 2_000 {
		want := randomText(r)
		value := EncodeHeaderValue(want)
		if badHeaderByte(value) >= 0 || !utf8.ValidString(value) || strings.Trim(value, " \t") != value || value == "" {
			t.Fatalf("EncodeHeaderValue(%q) = %q, which is no header", want, value)
		}
		if got, err := DecodeHeaderValue(value); err != nil || got != want {
			t.Fatalf("%q came back from %q as %q, %v", want, value, got, err)
		}
		twice := EncodeHeaderValue(value)
		if got, err := DecodeHeaderValue(twice); err != nil || got != value {
			t.Fatalf("%q came back from %q as %q, %v", value, twice, got, err)
		}
	}
}

// Every mirrored value passes the check, whatever the argument.
func TestParamHeaderRoundTrip(t *testing.T) {
	r := seeded(5)
	for range 1_500 {
		headers := []ParamHeader{
			{Name: "S", Path: []string{"s"}, Type: "string"},
			{Name: "N", Path: []string{"o", "n"}, Type: "integer"},
			{Name: "B", Path: []string{"o", "b"}, Type: "boolean"},
		}
		number := []string{"0", "-0", "42", "4.2e1", "420e-1", "9007199254740991", "-9007199254740991", "1.5", "1e400"}[r.IntN(9)]
		arguments := []byte(`{"s":` + escapedText(r, randomText(r)) + `,"o":{"n":` + number + `,"b":` + []string{"true", "false", "null"}[r.IntN(3)] + `}}`)
		got := map[string][]string{}
		for i, v := range ParamValues(headers, arguments) {
			if v.Present {
				got[headers[i].Header()] = []string{EncodeHeaderValue(v.Text)}
			}
		}
		if err := CheckParamHeaders(headers, got, arguments); err != nil {
			t.Fatalf("%s with %q: %v", arguments, got, err)
		}
		// With one more character it does not match.
		for name, v := range got {
			got[name] = []string{EncodeHeaderValue("x" + v[0])}
			if CheckParamHeaders(headers, got, arguments) == nil {
				t.Fatalf("%s with %q: no error", arguments, got)
			}
			got[name] = v
		}
	}
}

// A number is an integer exactly if exact arithmetic agrees.
func TestSafeIntegerRandom(t *testing.T) {
	limit := new(big.Int).SetUint64(1<<53 - 1)
	r := seeded(6)
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
		if got, _ := safeInteger([]byte(token)); got != want {
			t.Fatalf("safeInteger(%s) = %q, want %q", token, got, want)
		}
	}
}

// A sequence of edits, one after the other, has the same result as one edit of all of
// them.
func TestEditsInSequence(t *testing.T) {
	r := seeded(7)
	for range 1_500 {
		in := randomObject(r, 0)
		o, err := ParseObject([]byte(in))
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
	r := seeded(8)
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
		member := string(AppendString(nil, prefix+strconv.Itoa(i)+randomText(r))) + " :\t" + []string{"1e400", `"}"`, "[ ]", "{}", "-0.0"}[r.IntN(5)]
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
	r := seeded(9)
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
	for _, m := range pairs(t, object) {
		out = append(out, m.name)
	}
	return out
}

// For any message, an error is one short line of ASCII, safe for logs and terminals.
func TestParseErrorsAreOneLine(t *testing.T) {
	r := seeded(10)
	for range 2_000 {
		name := randomText(r) + "\u202e\x1b[2J" + strings.Repeat("k", r.IntN(200))
		in := `{"jsonrpc":"2.0","id":1,"method":"m","params":{` + escapedText(r, name) + `:1,` + escapedText(r, name) + `:2}}`
		_, err := Parse([]byte(in), Limits{})
		if err == nil || !strings.Contains(err.Error(), "duplicate member ") {
			t.Fatalf("%s: %v", in, err)
		}
		checkOneLine(t, err)
		cut := in[:r.IntN(len(in))] + string([]byte{byte(r.UintN(256))})
		if _, err := Parse([]byte(cut), Limits{}); err != nil {
			checkOneLine(t, err)
		}
	}
}

func checkOneLine(t testing.TB, err error) {
	t.Helper()
	text := err.Error()
	plain := func(c rune) bool { return c < ' ' || c > '~' }
	if strings.ContainsFunc(text, plain) || len(text) > 800 {
		t.Fatalf("the error is %q", text)
	}
}
