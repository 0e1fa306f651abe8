// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// path is a variable of the principal or its client, and the members that a rule reads of it.
type path []string

// paths is a set of paths.
type paths struct{ found []path }

func (p *paths) add(more ...path) { p.found = append(p.found, more...) }

// all returns the paths, without those below others, in order.
func (p *paths) all() []path {
	slices.SortFunc(p.found, slices.Compare[path])
	var out []path
	for _, next := range p.found {
		if last := len(out) - 1; last >= 0 && len(out[last]) <= len(next) && slices.Equal(out[last], next[:len(out[last])]) {
			continue
		}
		out = append(out, next)
	}
	return out
}

// walker collects what an expression reads, and finds what is not allowed.
type walker struct {
	of      *ast.AST
	paths   []path
	reads   reads
	bound   []string // the variables of macros
	grows   bool     // it has a macro, or a function that makes values or costs more than they are long
	problem *Error
}

func (w *walker) refuse(e ast.Expr, text string) {
	if w.problem != nil {
		return
	}
	at := w.of.SourceInfo().GetStartLocation(e.ID())
	w.problem = &Error{Line: max(1, at.Line()), Column: max(0, at.Column()) + 1, Text: text}
}

func (w *walker) walk(e ast.Expr) {
	if p, ok := w.pathOf(e); ok {
		w.read(p)
		return
	}
	switch e.Kind() {
	case ast.SelectKind:
		w.walk(e.AsSelect().Operand())
	case ast.CallKind:
		call := e.AsCall()
		switch call.FunctionName() {
		case "matches":
			w.checkPattern(e, call)
			w.grows = true
		case operators.Add:
			w.grows = true
		}
		if call.IsMemberFunction() {
			w.walk(call.Target())
		}
		for _, arg := range call.Args() {
			w.walk(arg)
		}
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			w.checkLiteral(element)
			w.walk(element)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			m := entry.AsMapEntry()
			w.checkLiteral(m.Value())
			w.walk(m.Key())
			w.walk(m.Value())
		}
	case ast.ComprehensionKind:
		w.walkMacro(e.AsComprehension())
	default: // a literal, or a variable of a macro
	}
}

func (w *walker) walkMacro(c ast.ComprehensionExpr) {
	w.grows = true
	w.walk(c.IterRange())
	before := len(w.bound)
	w.bound = append(w.bound, c.IterVar())
	for _, part := range []ast.Expr{c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()} {
		w.walk(part)
	}
	w.bound = w.bound[:before]
}

// checkPattern refuses a regular expression that is made at run time.
func (w *walker) checkPattern(e ast.Expr, call ast.CallExpr) {
	args := call.Args()
	if last := args[len(args)-1]; last.Kind() != ast.LiteralKind {
		w.refuse(e, "the pattern of matches must be a literal")
	}
}

// checkLiteral refuses an element of a list or map that has a variable of a macro. With it,
// nested macros could make values that double with each level.
func (w *walker) checkLiteral(element ast.Expr) {
	ast.PostOrderVisit(element, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.IdentKind && slices.Contains(w.bound, e.AsIdent()) {
			w.refuse(e, "a list or map may not contain the variable of a macro")
		}
	}))
}

// pathOf returns the path that an expression reads: a variable, and members of it by constant
// names.
func (w *walker) pathOf(e ast.Expr) (path, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		name := e.AsIdent()
		return path{name}, !slices.Contains(w.bound, name)
	case ast.SelectKind:
		s := e.AsSelect()
		p, ok := w.pathOf(s.Operand())
		return append(p, s.FieldName()), ok
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() != operators.Index {
			return nil, false
		}
		key := call.Args()[1]
		if key.Kind() != ast.LiteralKind {
			return nil, false
		}
		name, ok := key.AsLiteral().(types.String)
		if !ok {
			return nil, false
		}
		p, ok := w.pathOf(call.Args()[0])
		return append(p, string(name)), ok
	default:
		return nil, false
	}
}

// read records that a path is read.
func (w *walker) read(p path) {
	switch root := p[0]; {
	case root == varArgs:
		w.reads |= readsArgs
	case root == varURI:
		w.reads |= readsURI
	case root == varItemName:
		w.reads |= readsName
	case root == varOwn:
		w.reads |= readsOwn
	case root == varAnnotations:
		w.reads |= readsAnnotations
	case root == varTags:
		w.reads |= readsTags
	case root == varMethod:
		w.reads |= readsMethod
	case strings.HasPrefix(root, "principal."):
		if root == varClaims {
			w.reads |= readsClaims
		}
		w.paths = append(w.paths, p)
	case strings.HasPrefix(root, "request."):
		w.reads |= readsClient
		w.paths = append(w.paths, p)
	}
}
