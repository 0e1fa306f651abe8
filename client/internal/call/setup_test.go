// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"testing"
	"time"
)

// A limit of zero means the default, a negative one none, and any other its value.
func TestLimitsOfConfig(t *testing.T) {
	all := func(n int, d time.Duration) Config {
		return Config{
			Connect: d, Handshake: d, Write: d, Stop: d, IdleTime: d,
			MaxMessage: n, MaxSessions: n, IdleSessions: n, MaxProcesses: n, MaxRounds: n, MaxLogLine: n,
		}
	}
	for _, tt := range []struct {
		name      string
		cfg       Config
		least     Config
		isExactly bool
	}{
		{"default", all(0, 0), all(4, 5*time.Second), false},
		{"none", all(-1, -1), all(1<<30, 1000*time.Hour), false},
		{"set", all(3, 7*time.Second), all(3, 7*time.Second), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, want := NewSetup(tt.cfg), tt.least
			for _, v := range []struct {
				name      string
				got, want int64
			}{
				{"Connect", int64(s.Connect), int64(want.Connect)},
				{"Handshake", int64(s.Handshake), int64(want.Handshake)},
				{"Write", int64(s.Write), int64(want.Write)},
				{"Stop", int64(s.Stop), int64(want.Stop)},
				{"IdleTime", int64(s.IdleTime), int64(want.IdleTime)},
				{"MaxMessage", int64(s.MaxMessage), int64(want.MaxMessage)},
				{"MaxSessions", int64(s.MaxSessions), int64(want.MaxSessions)},
				{"IdleSessions", int64(s.IdleSessions), int64(want.IdleSessions)},
				{"MaxProcesses", int64(s.MaxProcesses), int64(want.MaxProcesses)},
				{"MaxRounds", int64(s.MaxRounds), int64(want.MaxRounds)},
				{"MaxLogLine", int64(s.MaxLogLine), int64(want.MaxLogLine)},
			} {
				if v.got < v.want || tt.isExactly && v.got != v.want {
					t.Errorf("%s = %d, want %d", v.name, v.got, v.want)
				}
			}
		})
	}
}
