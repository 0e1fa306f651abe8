// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import "context"

// Bound returns a function for a Tool or a Prompt that calls f with its arguments, as
// [Call.Bind] decodes them into the zero value of In. Arguments that do not fit do not
// reach f. Where an argument has a default that is not its zero value, the function
// binds by itself.
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

// Always returns a function that always answers the same, for a Tool, a Prompt or a
// Resource. The answer must not be changed any more.
func Always[Out any](out Out) func(ctx context.Context, call *Call) (Out, error) {
	return func(context.Context, *Call) (Out, error) { return out, nil }
}
