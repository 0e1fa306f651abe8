// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"

	"cel.dev/cel-go/cel"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// A Condition is an expression about a principal alone: of the variables of a [Rule] it has
// those that begin with "principal.". It is immutable, and its methods may be called
// concurrently.
type Condition struct{ policy *Policy }

// CompileCondition compiles a condition. The bounds are those of rules.
func CompileCondition(text string) (*Condition, *Error) {
	env, err := cel.NewEnv(languageOptions([]string{varName, varIssuer, varSubject, varVia}, []string{varScopes}, []string{varClaims})...)
	if err != nil {
		return nil, &Error{Rule: -1, Index: -1, Text: fmt.Sprintf("CEL: %v", err)}
	}
	p, problem := compileOne(env, "condition", allow, text)
	if problem != nil {
		return nil, problem
	}
	return &Condition{p}, nil
}

// Holds reports whether the condition is true for a principal, which may be nil. One that
// fails, because a claim is missing for example, does not hold.
func (c *Condition) Holds(id *mcp.Identity) bool {
	d := c.policy.Decide(c.policy.Subject(id, nil), noItem, &Call{}, nil)
	return d.Effect == Allowed
}

// noItem is for an evaluation that is about no item.
var noItem = NewItem("", "", "", "", nil) //nolint:gochecknoglobals // never changed
