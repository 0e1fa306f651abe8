// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
)

// CostLimit bounds the work of one expression, in the units of CEL: about one for each access,
// comparison, and ten characters of text.
const CostLimit = 10_000

// MaxExpression bounds the length of an expression, in bytes.
const MaxExpression = 4096

// A Rule has exactly one of Allow, Deny, Needs and Confirm.
//
// Expressions are CEL, of type bool, over these variables:
//
//	principal.name, principal.issuer, principal.subject, principal.via   string
//	principal.scopes                                                     list of string
//	principal.claims                                                     map of string to any
//	item.kind        string: tool, prompt, resource, template, or method for one of an unknown extension
//	item.backend     string: the name of its backend
//	item.name        string: as clients see it; of a resource, its URI
//	item.own         string: as its backend calls it
//	item.uri         string: of a resource, or that is read through a template; else ""
//	item.annotations map of string to any; in a rule with Confirm, see [Rule.Confirm]
//	item.tags        list of string
//	args             map of string to any: the arguments of a tool or prompt
//	request.method   string: tools/call, prompts/get, resources/read, completion/complete,
//	                 subscriptions/listen
//	request.era      string: modern or legacy
//	request.client.name, request.client.version  string: the claim of the client itself
//
// A number is an int if it is written as an integer, and a double otherwise.
type Rule struct {
	// Name is shown to the clients that the rule refuses. It is unique.
	Name string

	Allow, Deny string

	// Needs are scopes.
	Needs []string

	// Confirm is an expression. If it is true, or fails, the user is asked before the call.
	//
	// In the expressions of such a rule item.annotations has all hints of a tool, and they are
	// bools. A hint that the server does not claim is false, and so is readOnlyHint of a tool
	// with destructiveHint. The member unknown is true for a tool that claims neither to be
	// read-only nor whether it is destructive.
	Confirm string

	// When is a condition of the rule. "" is true.
	When string

	// On are patterns of the items that the rule is about: names as clients see them, and
	// URIs. In a pattern, * matches any number of characters. Nil is all items.
	On []string
}

// Otherwise is what holds for an item about which no rule decides.
const Otherwise = "otherwise"

// A Policy is a set of compiled rules. It is immutable, and its methods may be called
// concurrently.
type Policy struct {
	rules     []rule
	otherwise bool // allows

	paths    []path   // of the principal and its client, that rules read
	scopes   []string // that rules need, sorted
	byClient bool     // a path is of the client
	byMethod bool     // a rule reads request.method
	failed   func(rule string, why Failure)

	subjects subjects
}

// kind is what a rule does.
type kind uint8

const (
	allow kind = iota
	deny
	needs
	confirm
)

func (k kind) String() string { return [...]string{"allow", "deny", "needs", "confirm"}[k] }

// rule is a compiled Rule.
type rule struct {
	name   string
	kind   kind
	scopes []string
	on     []string
	terms  []term // all must be true; the condition first
	reads  reads
}

// term is a compiled expression.
type term struct {
	field   string
	program cel.Program
	reads   reads

	// cheap is the program without a count of its cost, which cannot exceed CostLimit if all
	// that it reads is small; or nil.
	cheap cel.Program
}

// reads are the variables that an expression reads, of those that may be unknown or invalid.
type reads uint16

const (
	readsArgs reads = 1 << iota
	readsURI
	readsAnnotations
	readsTags
	readsMethod
	readsClient
	readsClaims
	readsName
	readsOwn

	// readsItem is all that differs between the items of one kind of a backend, and their calls.
	readsItem = readsArgs | readsURI | readsAnnotations | readsTags | readsName | readsOwn
)

// Failure is why an expression has no value. It contains nothing of what the expression was
// evaluated for.
type Failure string

// The reasons.
const (
	FailedMissing   Failure = "it reads a member that is missing"
	FailedCost      Failure = "it costs too much"
	FailedArguments Failure = "the arguments cannot be read exactly"
	FailedItem      Failure = "the annotations or tags of the item cannot be read"
	FailedUnknown   Failure = "it reads the URI of a template, which this request does not have"
	FailedOther     Failure = "it has no value"
)

// An Error is a mistake in a rule.
type Error struct {
	Rule  int    // the index, or -1
	Field string // allow, deny, needs, confirm, when, on, name, or "" for the rule as a whole
	Index int    // of the element in a list, or -1

	// Line and Column, from 1, are the place in the expression; 0 if it is all of it.
	Line, Column int

	Text string
}

func (e *Error) Error() string {
	var at strings.Builder
	if e.Rule >= 0 {
		fmt.Fprintf(&at, "rules[%d]", e.Rule)
	}
	if e.Field != "" {
		at.WriteString("." + e.Field)
	}
	if e.Line > 0 {
		fmt.Fprintf(&at, ", line %d column %d", e.Line, e.Column)
	}
	return at.String() + ": " + e.Text
}

// Errors are all mistakes of a policy. It is the error type of Compile.
type Errors []*Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// ReadsClient reports whether a rule reads the claims of a client about itself.
func (p *Policy) ReadsClient(rule int) bool { return p.rules[rule].reads&readsClient != 0 }

// ReadsArguments reports whether a rule reads the arguments of a call.
func (p *Policy) ReadsArguments(rule int) bool { return p.rules[rule].reads&readsArgs != 0 }

// ReadsMethod reports whether a rule reads request.method.
func (p *Policy) ReadsMethod() bool { return p.byMethod }

// Options are the settings of Compile besides the rules.
type Options struct {
	// Allow is the outcome for an item about which no rule decides: to allow it.
	Allow bool

	// Failed is called for each rule that fails in List or Decide, and must not block. It may
	// be nil.
	Failed func(rule string, why Failure)
}
