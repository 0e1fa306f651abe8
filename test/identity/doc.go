// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity tests Signalbox with real identity providers and the OAuth clients of
// other projects.
//
// Everything is in the tests. They install what package-lock.json and requirements.txt pin,
// build the command signalbox, and start all on loopback:
//
//   - oidc-provider, a certified authorization server, in a process of its own (package
//     provider);
//   - the provider of zitadel/oidc in the test process, where a test has to place a fault;
//   - clients of the SDKs in TypeScript, Python and Go, which get nothing but a URL;
//   - a browser without a person (package test/browser of the main module).
//
// The system needs Go, npm and Python; what is missing is left out, except in CI.
package identity
