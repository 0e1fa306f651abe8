// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Methods that the client handles itself, because they decide where a message goes. All
// others are forwarded, whatever their name.
const (
	MethodDiscover    = "server/discover"
	MethodInitialize  = "initialize"
	MethodInitialized = "notifications/initialized"
	MethodListen      = "subscriptions/listen"
	MethodCancelled   = "notifications/cancelled"
	MethodProgress    = "notifications/progress"
	MethodMessage     = "notifications/message"
	MethodSetLevel    = "logging/setLevel"
	MethodPing        = "ping"
	MethodRoots       = "roots/list"
	MethodSubscribe   = "resources/subscribe"
	MethodUnsubscribe = "resources/unsubscribe"
	MethodToolsList   = "tools/list"
	MethodToolsCall   = "tools/call"
	MethodTaskStatus  = "notifications/tasks/status" // of 2025-11-25
)

// The methods of tasks. Two of them exist only in 2025-11-25, and one only in the
// extension. They are served here for clients of either form.
const (
	MethodTasks      = "tasks/" // prefix of all of them
	MethodTaskGet    = "tasks/get"
	MethodTaskUpdate = "tasks/update"
	MethodTaskCancel = "tasks/cancel"
	MethodTaskResult = "tasks/result"
	MethodTaskList   = "tasks/list"
)

// BackendLimits returns the limits of a message from a backend. Members are limited by
// the size of the message rather than by their number: a large table is a legitimate
// result. An item of a list may be deeper than a client accepts. It is then left out,
// so that the other items are not lost.
func BackendLimits() mcp.Limits { return mcp.Limits{Depth: 128, ListDepth: 1024, Members: 4_000_000} }

// Limits of what a server may send or leave open.
const (
	MaxBatch          = 100 // messages of a batch (2025-03-26)
	MaxServerRequests = 16  // requests of one session that wait for an answer
	MaxToolPages      = 20  // pages read to refresh a tool's headers
)

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
