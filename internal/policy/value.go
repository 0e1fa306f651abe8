// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth bounds the nesting of arguments and claims. A message has at most 128 levels.
const maxDepth = 128

var errDepth = errors.New("it is nested too deeply")

// adapter converts values inside lists and maps. All that this package makes are CEL values
// already.
var adapter = types.DefaultTypeAdapter //nolint:gochecknoglobals // stateless

// decode returns an object of JSON as a CEL value. It refuses what different readers read
// differently: duplicate names, invalid UTF-8, and numbers that would have to be rounded.
func decode(raw []byte) (ref.Val, error) {
	own, _ := decoders.Get().(*decoder)
	defer own.release()
	own.text.Reset(raw)
	d := own.json
	d.Reset(&own.text)
	if d.PeekKind() != '{' {
		return nil, errors.New("it is not an object")
	}
	v, err := decodeNext(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.ReadToken(); err == nil {
		return nil, errors.New("there is text after the object")
	}
	return v, nil
}

// decoder reads one text.
type decoder struct {
	text bytes.Reader
	json *jsontext.Decoder
}

//nolint:gochecknoglobals // a pool
var decoders = sync.Pool{New: func() any { return &decoder{json: jsontext.NewDecoder(new(bytes.Reader))} }}

func (d *decoder) release() {
	d.text.Reset(nil)
	d.json.Reset(&d.text)
	decoders.Put(d)
}

func decodeNext(d *jsontext.Decoder, depth int) (ref.Val, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	tok, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch tok.Kind() {
	case '{':
		members := make(map[ref.Val]ref.Val)
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			key := types.String(name.String())
			if members[key], err = decodeNext(d, depth+1); err != nil {
				return nil, err
			}
		}
		_, err = d.ReadToken()
		return types.NewRefValMap(adapter, members), err
	case '[':
		var elements []ref.Val
		for d.PeekKind() != ']' {
			v, err := decodeNext(d, depth+1)
			if err != nil {
				return nil, err
			}
			elements = append(elements, v)
		}
		_, err = d.ReadToken()
		return types.NewRefValList(adapter, elements), err
	case '"':
		return types.String(tok.String()), nil
	case '0':
		return number(tok.String())
	case 't', 'f':
		return types.Bool(tok.Bool()), nil
	default:
		return types.NullValue, nil
	}
}

// maxExact is the least integer that a double shares with another.
const maxExact = 1 << 53

// number returns the value of a number without rounding: an int or a uint if it is written as
// an integer, and otherwise a double.
func number(text string) (ref.Val, error) {
	if !strings.ContainsAny(text, ".eE") {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return types.Int(n), nil
		}
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			return types.Uint(n), nil
		}
		return nil, errors.New("it has an integer of more than 64 bits")
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(f) >= maxExact {
		return nil, errors.New("it has a number that would have to be rounded")
	}
	return types.Double(f), nil
}

// convert returns decoded JSON as a CEL value.
func convert(v any, depth int) (ref.Val, error) {
	if depth > maxDepth {
		return nil, errDepth
	}
	switch v := v.(type) {
	case nil:
		return types.NullValue, nil
	case bool:
		return types.Bool(v), nil
	case string:
		return types.String(v), nil
	case json.Number:
		return number(v.String())
	case float64:
		return number(strconv.FormatFloat(v, 'f', -1, 64))
	case []any:
		elements := make([]ref.Val, len(v))
		for i := range v {
			var err error
			if elements[i], err = convert(v[i], depth+1); err != nil {
				return nil, err
			}
		}
		return types.NewRefValList(adapter, elements), nil
	case map[string]any:
		members := make(map[ref.Val]ref.Val, len(v))
		for name, value := range v {
			var err error
			if members[types.String(name)], err = convert(value, depth+1); err != nil {
				return nil, err
			}
		}
		return types.NewRefValMap(adapter, members), nil
	default:
		return nil, fmt.Errorf("it has a value of type %T", v)
	}
}

// small bounds the length of each text and list for which an expression that is cheap is
// evaluated without counting its cost.
const small = 2048

// isSmall reports whether no text, list or map in decoded JSON is longer than small.
func isSmall(v any) bool {
	switch v := v.(type) {
	case string:
		return len(v) <= small
	case []any:
		return len(v) <= small && !slices.ContainsFunc(v, func(e any) bool { return !isSmall(e) })
	case map[string]any:
		for _, e := range v {
			if !isSmall(e) {
				return false
			}
		}
		return len(v) <= small
	default:
		return true
	}
}

func listOf(texts []string) ref.Val {
	elements := make([]ref.Val, len(texts))
	for i, s := range texts {
		elements[i] = types.String(s)
	}
	return types.NewRefValList(adapter, elements)
}

func emptyMap() ref.Val { return types.NewRefValMap(adapter, map[ref.Val]ref.Val{}) }

// decodeValue returns any JSON value as a CEL value.
func decodeValue(raw []byte) (ref.Val, error) {
	return decodeNext(jsontext.NewDecoder(bytes.NewReader(raw)), 0)
}
