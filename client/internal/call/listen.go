// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"time"
)

// MaxToolPages limits the pages read to refresh a tool's headers.
const MaxToolPages = 20

// Limits of the wait before a stream of changes is opened again. Streams break
// regularly, because proxies cut idle ones and servers restart, so the first wait is
// short. The longest wait spares a server that is down for long.
const (
	MinListenWait = 250 * time.Millisecond
	MaxListenWait = 30 * time.Second
)

// MaxListenFailures is how many attempts in a row may fail before a listen ends with
// the last error. The caller must learn that it receives no changes any more.
const MaxListenFailures = 4
