// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "time"

// checkLimits notes limits that have no effect because of another configured limit. Limits
// with their default values are not compared.
func checkLimits(c *Config, j *validator) {
	l, p := &c.Limits, place{}.key("limits")
	checkReached(j, p, namedLimit{"sessionsPerPrincipal", int64(l.SessionsPerPrincipal)}, namedLimit{"sessions", int64(l.Sessions)})
	checkReached(j, p, namedLimit{"schema", l.Schema}, namedLimit{"backendMessage", l.BackendMessage})
	checkReached(j, p, namedLimit{"callIdle", int64(l.CallIdle)}, namedLimit{"callMax", int64(l.CallMax)})
	for i := range c.Servers {
		checkTimeout(&c.Servers[i], l.CallIdle, place{}.key(serversKey).key(c.Servers[i].Name), j)
	}
}

// namedLimit is a limit with its key.
type namedLimit struct {
	key   string
	limit int64
}

// checkReached notes a limit that is larger than one that includes it.
func checkReached(j *validator, p place, one, all namedLimit) {
	// Zero (the default) and negative (no limit) are not compared.
	if one.limit > 0 && all.limit > 0 && one.limit > all.limit {
		j.note(p.key(one.key), "", "%q is more than %q, and is never reached", one.key, all.key)
	}
}

// checkTimeout notes a timeout that is shorter than limits.callIdle.
func checkTimeout(s *Backend, idle time.Duration, p place, j *validator) {
	if !s.Disabled && s.Timeout > 0 && idle > s.Timeout {
		j.note(p.key("timeout"), "", `"limits.callIdle" is more than this "timeout", and is never reached here`)
	}
}
