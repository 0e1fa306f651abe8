// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy decides which callers may use and see an item, by rules in CEL
// (https://cel.dev).
//
// A [Rule] allows, denies, needs scopes, or has the user asked. Its expression is about the principal of a
// request, the item, the arguments of the call and the request itself; see [Rule]. The
// outcome does not depend on the order of the rules:
//
//  1. If a deny is true, or fails, the call is denied.
//  2. If no allow is true and the policy does not allow otherwise, it is denied.
//  3. If scopes are missing that a rule needs, the call needs them.
//  4. If a confirm is true, or fails, it is allowed if the user agrees.
//  5. It is allowed.
//
// So scopes are asked for only if they would help, and the user only about what would be done.
//
// An expression fails if it has no value: it reads a claim or an argument that is missing,
// compares what cannot be compared, or exceeds [CostLimit]. A deny that fails denies, an allow
// that fails does not allow, scopes are needed if their condition fails, and a confirm that
// fails asks.
//
// # Lists
//
// [Policy.List] is the same evaluation before there is a call: the arguments, and the URI that
// is to be read through a template, are unknown. An item that is denied whatever they are is
// hidden. Any other is listed, and decided by [Policy.Decide] when it is called.
//
// # Classes
//
// Rules read a few values of the principal and of its client. Compile collects them, and
// principals with equal ones have the same [Class] and see the same. So lists are made
// for each class, not for each principal.
//
// # Bounds
//
// An expression has at most [MaxExpression] bytes. It cannot build values that grow with each
// step: the macros map and filter do not exist, a list or map that is written in it may not
// contain the variable of a macro, and the pattern of matches is a literal. All that it does at
// run time is counted, and ends at [CostLimit].
package policy
