// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import "context"

// Bound returns a function for a Tool or a Prompt that calls f with its arguments,
// decoded by [Call.Bind] into the zero value of In. f is not called for invalid
// arguments. If an argument has a default other than its zero value, use Call.Bind
// instead.
func Bound[In, Out any](f func(ctx context.Context, call *Call, in In) (Out, error)) func(ctx context.Context, call *Call) (Out, error) {
	return func(ctx context.Context, call *Call) (Out, error) {
		var in In
		if err := call.Bind(&in); err != nil {
			var none Out
			return none, err
		}
		return f(ctx, call, in)
	}
}

// Always returns a function for a Tool, a Prompt or a Resource that always returns out,
// which must not be changed afterwards.
func Always[Out any](out Out) func(ctx context.Context, call *Call) (Out, error) {
	return func(context.Context, *Call) (Out, error) { return out, nil }
}
