// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package tap

import "context"

func contextWith(ctx context.Context, e *Exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, e)
}

func exchangeOf(ctx context.Context) *Exchange {
	e, _ := ctx.Value(exchangeKey{}).(*Exchange)
	return e
}
