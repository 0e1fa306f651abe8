// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package repocheck_test

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// codesOfOthers returns the codes in JSON-RPC's reserved range that our code may name:
// those of JSON-RPC and of the specification, to send them, and those that servers of
// the legacy era send, to recognize them. -32099 ends a range.
func codesOfOthers() []int64 {
	return []int64{-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022, -32000, -32001, -32002, -32015, -32042, -32099}
}

// reservedCodes finds numbers in JSON-RPC's reserved range that have no meaning known
// to us.
func reservedCodes(files []sourceFile) []string {
	var breaches []string
	for _, f := range productCode(files) {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			minus, ok := n.(*ast.UnaryExpr)
			if !ok || minus.Op != token.SUB {
				return true
			}
			lit, ok := minus.X.(*ast.BasicLit)
			if !ok || lit.Kind != token.INT {
				return true
			}
			code, err := strconv.ParseInt("-"+strings.ReplaceAll(lit.Value, "_", ""), 0, 64)
			if err == nil && code >= -32768 && code <= -32000 && !slices.Contains(codesOfOthers(), code) {
				breaches = append(breaches, f.breach(minus.Pos(), "%d lies in the range that JSON-RPC has reserved: codes of our own stand outside", code))
			}
			return true
		})
	}
	return breaches
}

// J10- 2026-07-28 basic/index: "New error codes for purposes not defined by this
// specification **SHOULD** be allocated outside the JSON-RPC reserved range (`-32768`
// to `-32000`)"
func TestRepoErrorCodesAreOutsideTheReservedRange(t *testing.T) {
	testSourceRule(t, reservedCodes, []ruleCase{
		{name: "of others, and outside", files: map[string]string{
			"a.go": "package a\nconst (\n\ta = -32602\n\tb = 1001\n\tc = -31999\n\td = -32_769\n\te = 32005\n)", "a_test.go": "package a\nconst a = -32005",
		}},
		{name: "inside", files: map[string]string{"a.go": "package a\nconst a = -32005\n\nvar b = f(-32_050, -0x7d0a)"}, want: []string{
			"a.go:2: -32005 lies in the range that JSON-RPC has reserved: codes of our own stand outside",
			"a.go:4: -32050 lies in the range that JSON-RPC has reserved: codes of our own stand outside",
			"a.go:4: -32010 lies in the range that JSON-RPC has reserved: codes of our own stand outside",
		}},
	})
}
