// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// Value is the value of a rule, or of its parts.
type Value uint8

// The values. Unknown is one that depends on what is not known yet.
const (
	False Value = iota
	True
	Failed
	Unknown
)

// String returns "false", "true", "failed" or "unknown".
func (v Value) String() string { return [...]string{"false", "true", "failed", "unknown"}[v] }

func valueOf(b bool) Value {
	if b {
		return True
	}
	return False
}

// and returns the value of a rule of two parts: false if one of them is, whatever the other is.
func (v Value) and(w Value) Value {
	switch {
	case v == False || w == False:
		return False
	case v == Unknown || w == Unknown:
		return Unknown
	case v == Failed || w == Failed:
		return Failed
	default:
		return True
	}
}

// Effect is the outcome of a policy.
type Effect uint8

// The outcomes.
const (
	Denied Effect = iota
	Needs         // scopes that the principal lacks
	Allowed
	Open    // in a Verdict only: it depends on the call
	Confirm // allowed if the user agrees
)

// String returns "denied", "needs", "allowed", "open" or "confirm".
func (e Effect) String() string {
	return [...]string{"denied", "needs", "allowed", "open", "confirm"}[e]
}

// IsAllowed reports whether a call is allowed, at once or if the user agrees.
func (e Effect) IsAllowed() bool { return e == Allowed || e == Confirm }

// A Decision is the outcome about one call, or about all calls of an item.
type Decision struct {
	Effect Effect

	// Rule is the name of the rule that decided, the first one in the order of the policy if
	// there are several, or Otherwise.
	Rule string

	// Scopes are all that the rules need for the call, and Missing those of them that the
	// principal lacks, both sorted, for the effect Needs.
	Scopes, Missing []string
}

// And returns the decision about a call that this decision allows, and that another one is about, too.
func (d Decision) And(other Decision) Decision {
	if d.Effect == Confirm && other.Effect == Allowed {
		return d
	}
	return other
}

// A Verdict is the decision about an item for all calls of a class of subjects. Its Effect is
// Denied if every call is denied, and then the item is hidden.
type Verdict struct {
	Decision

	// method is that for which values are.
	method string

	// values are those of the rules, in their order, if the effect is Open.
	values []Value
}

// Hidden reports whether the item is not listed.
func (v *Verdict) Hidden() bool { return v.Effect == Denied }

// A Call is what is known of a request besides its sender and the item.
type Call struct {
	Method string

	// URI is the one that is read through a template. HasURI reports that it is known.
	URI    string
	HasURI bool

	// Args are the arguments as they are dispatched, an object of JSON. Nil is no arguments.
	Args []byte
}

// Method returns the method by which items of a kind are called.
func Method(kind string) string {
	switch kind {
	case Tool:
		return "tools/call"
	case Prompt:
		return "prompts/get"
	default:
		return "resources/read"
	}
}

// List returns the decision about the calls of an item, whatever their arguments are, and the
// URI that is read through a template.
func (p *Policy) List(s *Subject, it *Item) Verdict {
	var few [32]Value
	return p.verdict(s, it, p.values(s, it, few[:0]))
}

// values appends the values of the rules about an item before there is a call.
func (p *Policy) values(s *Subject, it *Item, to []Value) []Value {
	in := newInput(s, it)
	defer in.release()
	in.method = types.String(Method(it.kind))
	in.unknown = readsArgs
	if it.kind == Template {
		in.unknown |= readsURI
	}
	for i := range p.rules {
		v, _ := p.evaluate(&p.rules[i], in)
		to = append(to, v)
	}
	return to
}

func (p *Policy) verdict(s *Subject, it *Item, values []Value) Verdict {
	d := p.forTools(s, it, p.combine(s, values))
	v := Verdict{Decision: d, method: Method(it.kind)}
	if d.Effect == Open {
		v.values = slices.Clone(values)
	}
	return v
}

// A Lister makes the verdicts about many items for one subject. Items for which the rules have
// the same values share a Verdict. It must not be used concurrently.
type Lister struct {
	policy  *Policy
	subject *Subject
	known   map[string]*Verdict // by the kind of the item and the values of the rules
	key     []byte
	values  []Value
}

// Lister returns a Lister for a subject.
func (p *Policy) Lister(s *Subject) *Lister {
	return &Lister{policy: p, subject: s, known: make(map[string]*Verdict)}
}

// List is [Policy.List]. The Verdict must not be changed.
func (l *Lister) List(it *Item) *Verdict {
	if it.IsGate() { // also by what is known of the tools
		v := l.policy.List(l.subject, it)
		return &v
	}
	l.values = l.policy.values(l.subject, it, l.values[:0])
	l.key = append(l.key[:0], it.kind...)
	for _, v := range l.values {
		l.key = append(l.key, byte(v))
	}
	if v, ok := l.known[string(l.key)]; ok {
		return v
	}
	v := l.policy.verdict(l.subject, it, l.values)
	l.known[string(l.key)] = &v
	return &v
}

// Decide returns the decision about one call. known may be the Verdict about the item for
// subjects of this class, or nil; rules that it has decided are not evaluated again.
func (p *Policy) Decide(s *Subject, it *Item, call *Call, known *Verdict) Decision {
	if known != nil && p.byMethod && known.method != call.Method {
		known = nil
	}
	if known != nil && known.Effect != Open {
		return known.Decision
	}
	in := newInput(s, it)
	defer in.release()
	in.setCall(call)
	var few [32]Value
	values := few[:0]
	for i := range p.rules {
		if known != nil && known.values[i] != Unknown {
			values = append(values, known.values[i])
			continue
		}
		v, _ := p.evaluate(&p.rules[i], in)
		if v == Unknown {
			p.note(&p.rules[i], FailedUnknown)
			v = Failed
		}
		values = append(values, v)
	}
	return p.forTools(s, it, p.combine(s, values))
}

// combine returns the outcome of the rules. It is Open if some are unknown and matter.
func (p *Policy) combine(s *Subject, values []Value) Decision {
	var scopes, missing []string
	grantedBy, neededBy, confirmedBy := "", "", ""
	open, mayAllow := false, false
	if p.otherwise {
		grantedBy = Otherwise
	}
	for i, v := range values {
		r := &p.rules[i]
		switch {
		case v == False:
		case r.kind == deny && v != Unknown:
			return Decision{Effect: Denied, Rule: r.name}
		case r.kind == deny:
			open = true
		case r.kind == allow && v == True:
			if grantedBy == "" || grantedBy == Otherwise {
				grantedBy = r.name
			}
		case r.kind == allow:
			mayAllow = mayAllow || v == Unknown
		case r.kind == confirm:
			open = open || v == Unknown
			if confirmedBy == "" && v != Unknown {
				confirmedBy = r.name
			}
		case v == Unknown:
			open = open || s.lacks(r.scopes)
		default:
			if neededBy == "" && s.lacks(r.scopes) {
				neededBy = r.name
			}
			scopes, missing = append(scopes, r.scopes...), s.appendLacking(missing, r.scopes)
		}
	}
	switch {
	case grantedBy == "" && !mayAllow:
		return Decision{Effect: Denied, Rule: Otherwise}
	case open || grantedBy == "":
		return Decision{Effect: Open}
	case len(missing) > 0:
		return needed(neededBy, scopes, missing)
	case confirmedBy != "":
		return Decision{Effect: Confirm, Rule: confirmedBy}
	default:
		return Decision{Effect: Allowed, Rule: grantedBy}
	}
}

// needed returns the decision of a rule that needs scopes. It keeps the lists.
func needed(rule string, scopes, missing []string) Decision {
	slices.Sort(scopes)
	slices.Sort(missing)
	return Decision{Effect: Needs, Rule: rule, Scopes: slices.Compact(scopes), Missing: slices.Compact(missing)}
}

// quiet returns the policy without a function for failures.
func (p *Policy) quiet() *Policy { return &Policy{rules: p.rules, otherwise: p.otherwise} }

func (s *Subject) lacks(scopes []string) bool {
	return slices.ContainsFunc(scopes, func(scope string) bool { return !slices.Contains(s.granted, scope) })
}

func (s *Subject) appendLacking(to, scopes []string) []string {
	for _, scope := range scopes {
		if !slices.Contains(s.granted, scope) {
			to = append(to, scope)
		}
	}
	return to
}

// evaluate returns the value of a rule, and the error if it failed.
func (p *Policy) evaluate(r *rule, in *input) (Value, error) {
	return p.evaluateFrom(in.match(r.on), r, in)
}

// evaluateSome is evaluate for items whose names are not known. A rule that allows is evaluated for one that
// its patterns match, if they can match one.
func (p *Policy) evaluateSome(r *rule, in *input) Value {
	v := in.match(r.on)
	if v == Unknown && r.kind == allow {
		v = True
	}
	v, _ = p.evaluateFrom(v, r, in)
	return v
}

func (p *Policy) evaluateFrom(v Value, r *rule, in *input) (Value, error) {
	var failed error
	in.byHints = r.kind == confirm
	for i := range r.terms {
		if v == False {
			return False, nil
		}
		w, err := r.terms[i].evaluate(in)
		if err != nil {
			failed = err
		}
		v = v.and(w)
	}
	if v != Failed {
		return v, nil
	}
	p.note(r, failureOf(failed))
	return v, failed
}

func (p *Policy) note(r *rule, why Failure) {
	if p.failed != nil {
		p.failed(r.name, why)
	}
}

// The errors are the errors of values that rules read and that could not be decoded.
var (
	errArguments  = errors.New(string(FailedArguments))
	errItem       = errors.New(string(FailedItem))
	errUnknownURI = errors.New(string(FailedUnknown))
	errClaims     = errors.New("the claims cannot be read exactly")
)

func (t *term) evaluate(in *input) (Value, error) {
	if t.reads&readsArgs != 0 && in.unknown&readsArgs == 0 && !in.readArgs() {
		return Failed, errArguments
	}
	switch {
	case t.reads&in.item.invalid != 0:
		return Failed, errItem
	case t.reads&in.subject.invalid != 0:
		return Failed, errClaims
	}
	program := t.program
	if t.cheap != nil && in.isSmall() {
		program = t.cheap
	}
	out, _, err := program.Eval(in)
	switch out := out.(type) {
	case types.Bool:
		if err == nil {
			return valueOf(bool(out)), nil
		}
	case *types.Unknown:
		return Unknown, nil
	}
	if err == nil {
		err = errors.New("its value is not a bool")
	}
	if isCost(err) && t.reads&in.unknown != 0 {
		return Unknown, err // with what is unknown, less may be evaluated
	}
	return Failed, err
}

func isCost(err error) bool {
	cancelled, ok := errors.AsType[interpreter.EvalCancelledError](err)
	return ok && cancelled.Cause == interpreter.CostLimitExceeded
}

// failureOf classifies an error. Its text may quote arguments and claims.
func failureOf(err error) Failure {
	switch {
	case err == nil:
		return FailedOther
	case errors.Is(err, errArguments):
		return FailedArguments
	case errors.Is(err, errItem):
		return FailedItem
	case isCost(err):
		return FailedCost
	case strings.Contains(err.Error(), "no such key"):
		return FailedMissing
	default:
		return FailedOther
	}
}

// input resolves the variables of expressions. It is a [cel.PartialVars].
type input struct {
	subject *Subject
	item    *Item
	method  ref.Val
	uri     ref.Val
	uriText string
	args    ref.Val
	raw     []byte
	decoded bool
	unknown reads
	byHints bool // item.annotations has the hints; see Item.hints
}

var (
	inputs = sync.Pool{New: func() any { return new(input) }} //nolint:gochecknoglobals // a pool

	//nolint:gochecknoglobals // constants
	unknownItem = []*cel.AttributePatternType{
		cel.AttributePattern(varArgs), cel.AttributePattern(varURI), cel.AttributePattern(varAnnotations),
		cel.AttributePattern(varTags), cel.AttributePattern(varItemName), cel.AttributePattern(varOwn),
	}
	//nolint:gochecknoglobals // constants
	unknownArgs, unknownURI, unknownBoth = []*cel.AttributePatternType{cel.AttributePattern(varArgs)},
		[]*cel.AttributePatternType{cel.AttributePattern(varURI)},
		[]*cel.AttributePatternType{cel.AttributePattern(varArgs), cel.AttributePattern(varURI)}

	noArgs = emptyMap() //nolint:gochecknoglobals // a constant
)

func newInput(s *Subject, it *Item) *input {
	in, _ := inputs.Get().(*input)
	*in = input{subject: s, item: it, uri: it.uri, uriText: it.name}
	return in
}

func (in *input) release() {
	*in = input{}
	inputs.Put(in)
}

func (in *input) setCall(call *Call) {
	in.method, in.raw = types.String(call.Method), call.Args
	if in.item.kind != Template {
		return
	}
	if !call.HasURI {
		in.unknown |= readsURI
		return
	}
	in.uri, in.uriText = types.String(call.URI), call.URI
}

// readArgs decodes the arguments when a rule reads them first. It reports false if they cannot
// be decoded.
func (in *input) readArgs() bool {
	if in.decoded {
		return in.args != nil
	}
	in.decoded = true
	if in.raw == nil {
		in.args = noArgs
		return true
	}
	if v, err := decode(in.raw); err == nil {
		in.args = v
	}
	return in.args != nil
}

// isSmall reports whether all that an expression can read is small.
func (in *input) isSmall() bool {
	return in.subject.small && in.item.small && len(in.uriText) <= small && len(in.raw) <= small
}

// Parent returns nil: all variables are here.
func (in *input) Parent() cel.Activation { return nil }

// AsPartialActivation reports whether something is unknown.
func (in *input) AsPartialActivation() (interpreter.PartialActivation, bool) {
	return in, in.unknown != 0
}

// UnknownAttributePatterns returns the variables that are unknown.
func (in *input) UnknownAttributePatterns() []*cel.AttributePatternType {
	switch in.unknown {
	case readsArgs:
		return unknownArgs
	case readsURI:
		return unknownURI
	case readsArgs | readsURI:
		return unknownBoth
	case readsItem:
		return unknownItem
	case readsItem &^ (readsName | readsOwn):
		return unknownItem[:4:4]
	default:
		return nil
	}
}

// ResolveName returns the value of a variable.
func (in *input) ResolveName(name string) (any, bool) {
	switch name {
	case varName:
		return in.subject.name, true
	case varIssuer:
		return in.subject.issuer, true
	case varSubject:
		return in.subject.subject, true
	case varVia:
		return in.subject.via, true
	case varScopes:
		return in.subject.scopes, true
	case varClaims:
		return in.subject.claims, true
	case varKind:
		return in.item.kindVal, true
	case varBackend:
		return in.item.backend, true
	case varItemName:
		return in.item.nameVal, true
	case varOwn:
		return in.item.own, true
	case varURI:
		return in.uri, true
	case varAnnotations:
		if in.byHints {
			return in.item.hints(), true
		}
		return in.item.annotations, true
	case varTags:
		return in.item.tags, true
	case varArgs:
		return in.args, in.args != nil
	case varMethod:
		return in.method, true
	case varEra:
		return in.subject.era, true
	case varClientName:
		return in.subject.clientName, true
	case varClientVersion:
		return in.subject.clientVersion, true
	default:
		return nil, false
	}
}
