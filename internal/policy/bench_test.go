// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/policy"
)

// BenchmarkDecide measures a decision that a view has made already, one that reads arguments,
// and one about which nothing is known.
func BenchmarkDecide(b *testing.B) {
	p := example(b)
	id := identity(b, "x", `{"groups":["a","b","staff"]}`)
	deploy, get := tool("jira__deploy", `{"annotations":{"readOnlyHint":true}}`), tool("jira__get", `{"annotations":{"readOnlyHint":true}}`)
	c := call(`{"env":"test","service":"web","replicas":3}`)
	for _, tc := range []struct {
		name  string
		item  *policy.Item
		known bool
	}{{"known", get, true}, {"arguments", deploy, true}, {"all", deploy, false}} {
		b.Run(tc.name, func(b *testing.B) {
			b.ReportAllocs()
			v := p.List(p.Subject(id, nil), tc.item)
			known := &v
			if !tc.known {
				known = nil
			}
			for b.Loop() {
				if p.Decide(p.Subject(id, nil), tc.item, c, known).Effect != policy.Allowed {
					b.Fatal("denied")
				}
			}
		})
	}
	b.Run("list", func(b *testing.B) {
		b.ReportAllocs()
		s := p.Subject(id, nil)
		for b.Loop() {
			if v := p.List(s, deploy); v.Effect != policy.Open {
				b.Fatal(v)
			}
		}
	})
	b.Run("subject", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			own := *id
			p.Subject(&own, nil)
		}
	})
}
