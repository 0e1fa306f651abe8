// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
	"github.com/signalbox-mcp/signalbox/internal/policy"
)

// operatorsKey is the key of the condition for operators.
const operatorsKey = "operators"

// operators is a CEL expression that is not empty: an empty one must not count as none.
func operators() form {
	return text().then(func(r *reader, n configfile.Node, p place, _ reflect.Value) {
		if n.Kind == configfile.Text && n.Text == "" {
			r.reject(p, `write an expression, such as "principal.name == 'ops'", or remove it`, "%q is empty", p.name)
		}
	})
}

// CompileOperators returns the condition for operators, or nil without one. A Config that
// is valid has no mistake in it.
func (c *Config) CompileOperators() (*policy.Condition, error) {
	if c.Operators == "" {
		return nil, nil
	}
	condition, problem := policy.CompileCondition(c.Operators)
	if problem != nil {
		return nil, problem
	}
	return condition, nil
}

func checkOperators(c *Config, r *reader) {
	p := place{}.key(operatorsKey)
	if c.Operators == "" || r.has(p) {
		return
	}
	if _, problem := policy.CompileCondition(c.Operators); problem != nil {
		r.reportExpression(p, c.Operators, problem.Line, problem.Column, problem.Text)
	}
}
