// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package principal derives the name of a sender from its credential, by an
// expression of the operator such as claims.sub. Expressions are in CEL (https://cel.dev).
// A name is the key of everything that is kept for the sender, so an expression either
// results in a usable name, or the credential is refused.
package principal

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

const (
	// maxText bounds an expression, in characters.
	maxText = 4 << 10

	// maxCost bounds one evaluation, in units of CEL: about one for each step.
	maxCost = 10_000

	// MaxName bounds a name, in bytes. Names are part of logs and records.
	MaxName = 256
)

// An Expression is a compiled expression. It is immutable, and its methods may be called
// concurrently.
type Expression struct {
	variable string
	program  cel.Program
}

// Compile compiles an expression over one variable, which is a map of texts to any values.
// The error explains what is wrong with the expression, in one line.
func Compile(variable, text string) (*Expression, error) {
	env, err := cel.NewEnv(
		cel.Variable(variable, cel.MapType(cel.StringType, cel.DynType)),
		cel.CustomTypeAdapter(adapter{}),
		cel.ParserExpressionSizeLimit(maxText),
	)
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		return nil, fmt.Errorf("column %d: %s", first.Location.Column()+1, first.Message)
	}
	if out := ast.OutputType(); !out.IsExactType(cel.StringType) && !out.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("it results in a value of type %v, and a name is a string", out)
	}
	program, err := env.Program(ast, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, err
	}
	return &Expression{variable, program}, nil
}

// ErrEmpty reports that an expression results in an empty string, as one does that refuses a
// credential.
var ErrEmpty = errors.New("the expression results in an empty string")

// The other reasons for which an expression results in no name. They do not quote values.
var (
	errNoString  = errors.New("the expression does not result in a string")
	errTooLong   = fmt.Errorf("the expression results in more than %d bytes", MaxName)
	errUnprinted = errors.New("the expression results in a string with control characters")
	errFailed    = errors.New("the expression cannot be evaluated, because a value is missing or of another type")
)

// Name returns the name that the expression results in. The error does not quote the values.
// Numbers among them may be of type [json.Number].
func (e *Expression) Name(values map[string]any) (string, error) {
	out, _, err := e.program.Eval(map[string]any{e.variable: values})
	if err != nil {
		return "", errFailed // the text of err may quote a value
	}
	name, ok := out.Value().(string)
	if !ok {
		return "", errNoString
	}
	if err := Check(name); err != nil {
		return "", err
	}
	return name, nil
}

// Check reports whether a text can be a name. The error does not quote it.
func Check(name string) error {
	switch {
	case name == "":
		return ErrEmpty
	case len(name) > MaxName:
		return errTooLong
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errUnprinted
	}
	return nil
}

// maxExact is the least integer that a double shares with another.
const maxExact = 1 << 53

// adapter converts numbers of decoded JSON. An integer is an int or a uint, so that
// string(claims.id) has no exponent. A number that would have to be rounded is an error: others
// would have the same name.
type adapter struct{}

// NativeToValue converts one value. CEL calls it for the members of maps and lists when they
// are used.
func (adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return types.Int(n)
		}
		if n, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return types.Uint(n)
		}
		if n, err := v.Float64(); err == nil && math.Abs(n) < maxExact {
			return types.Double(n)
		}
		return types.NewErr("a number is out of range")
	case map[string]any:
		return types.NewStringInterfaceMap(adapter{}, v)
	case []any:
		return types.NewDynamicList(adapter{}, v)
	default:
		return types.DefaultTypeAdapter.NativeToValue(v)
	}
}
