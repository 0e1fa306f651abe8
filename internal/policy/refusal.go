// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import "github.com/signalbox-mcp/signalbox/mcp"

// A Refusal is an expression about a call, with the variables and the bounds of those of a [Rule].
// It is immutable, and its methods may be called concurrently.
type Refusal struct{ policy *Policy }

// CompileRefusal compiles the expression of a Refusal.
func CompileRefusal(text string) (*Refusal, *Error) {
	env, err := newEnv()
	if err != nil {
		return nil, &Error{Rule: -1, Index: -1, Text: err.Error()}
	}
	p, problem := compileOne(env, "refusal", deny, text)
	if problem != nil {
		return nil, problem
	}
	return &Refusal{p}, nil
}

// Evaluate returns the value of the expression for a call of an item. It is Failed if the expression
// has no value, for example because it reads an argument that the call lacks, or costs too much.
func (r *Refusal) Evaluate(id *mcp.Identity, peer *mcp.Peer, it *Item, call *Call) Value {
	in := newInput(r.policy.Subject(id, peer), it)
	defer in.release()
	in.setCall(call)
	v, _ := r.policy.evaluate(&r.policy.rules[0], in)
	return v
}
