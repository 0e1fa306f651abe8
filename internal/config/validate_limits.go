// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "time"

// checkLimits finds limits that another limit of the file reaches first. A limit
// that stands at its default is nobody's mistake, however another one was set.
func checkLimits(c *Config, j *judge) {
	l, p := &c.Limits, place{}.key("limits")
	checkReached(j, p, reach{"sessionsPerPrincipal", int64(l.SessionsPerPrincipal)}, reach{"sessions", int64(l.Sessions)})
	checkReached(j, p, reach{"schema", l.Schema}, reach{"backendMessage", l.BackendMessage})
	checkReached(j, p, reach{"callIdle", int64(l.CallIdle)}, reach{"callMax", int64(l.CallMax)})
	for i := range c.Servers {
		checkTimeout(&c.Servers[i], l.CallIdle, place{}.key(serversKey).key(c.Servers[i].Name), j)
	}
}

// reach is a limit by its key.
type reach struct {
	key   string
	limit int64
}

// checkReached remarks on a limit above the one that holds for all.
func checkReached(j *judge, p place, one, all reach) {
	// None and the default are not written in numbers, and are nobody's comparison.
	if one.limit > 0 && all.limit > 0 && one.limit > all.limit {
		j.note(p.key(one.key), "", "%q is more than %q, and is never reached", one.key, all.key)
	}
}

// checkTimeout remarks on a timeout that ends every call of its server before the
// silence that the file allows can.
func checkTimeout(s *Server, idle time.Duration, p place, j *judge) {
	if !s.Disabled && s.Timeout > 0 && idle > s.Timeout {
		j.note(p.key("timeout"), "", `"limits.callIdle" is more than this "timeout", and is never reached here`)
	}
}
