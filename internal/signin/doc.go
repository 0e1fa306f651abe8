// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package signin has users sign in at the authorization servers of backends, in a browser.
//
//	call > Handler: *grant.Missing > Desk: a pending > the user gets its URL, as the era allows
//	browser > Desk: page > authorization server > callback > grant.Source: Complete > the call goes on
//
// A Handler wraps the Handler of a backend. A request that ends with a *grant.Missing was not
// dispatched, so that the Handler may ask the user to sign in, wait, and then send the request.
//
// A Desk keeps the sign-ins that have begun, in memory, and serves their pages. The URL of a
// pending grants nothing to its reader: only a browser of the principal that the pending belongs
// to can begin the sign-in, and only the browser that has begun it can end it.
package signin
