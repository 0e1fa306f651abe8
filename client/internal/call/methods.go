// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

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
