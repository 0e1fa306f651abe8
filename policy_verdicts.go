// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"bytes"
	"sync/atomic"
	"weak"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/policy"
)

// policyItems are the items of a catalog as rules see them, by kind and place. An item with the
// definition that it had in the catalog before is the same pointer, so that decisions about it
// need not be made again. It is immutable.
type policyItems struct {
	all   [catalog.NumKinds][]*policy.Item
	since atomic.Pointer[keptItems] // the latest one
}

// itemsOf returns the items of the catalog of a view. before is another view, from which items are taken, or nil.
func itemsOf(v, before *view) *policyItems {
	c := v.catalog
	if before == nil || before.items == nil {
		before = &view{catalog: new(catalog.Catalog), items: new(policyItems)}
	}
	if before.catalog == c {
		return before.items
	}
	items := new(policyItems)
	for k := range catalog.NumKinds {
		placed := c.Placed(k)
		items.all[k] = make([]*policy.Item, 0, len(placed))
		for _, e := range placed {
			it := before.itemLike(e)
			if b, ok := v.backendOf(e); ok && b.isGate(v, e) != it.IsGate() {
				it = v.gateOr(b, e)
			}
			items.all[k] = append(items.all[k], it)
		}
	}
	return items
}

// itemLike returns the item of the view with the definition of an entry, or a new one. Rules read
// nothing else of an entry.
func (v *view) itemLike(e *catalog.Entry) *policy.Item {
	hasOwnName := e.Name != e.Offered() // then the view is the one that the entry's is a part of
	if same, ok := v.catalog.Find(e.Kind, e.Offered()); ok && same.Own == e.Own && same.BackendName == e.BackendName && (hasOwnName || bytes.Equal(same.JSON(), e.JSON())) {
		return v.items.of(same)
	}
	return policy.NewItem(policyKind(e.Kind), e.BackendName, e.Offered(), e.Own, e.JSON())
}

// gateOr returns the item of an entry of a backend, which may be its tool to sign in.
func (v *view) gateOr(b *activeBackend, e *catalog.Entry) *policy.Item {
	if b.isGate(v, e) {
		return policy.NewGate(e.BackendName, b.srv.NamePrefix(), e.Offered(), e.Own, e.JSON())
	}
	return policy.NewItem(policyKind(e.Kind), e.BackendName, e.Offered(), e.Own, e.JSON())
}

// of returns the item of an entry of the catalog, or of a part of it.
func (items *policyItems) of(e *catalog.Entry) *policy.Item { return items.all[e.Kind][e.Place] }

// keptItems are the places of items that other items have, too.
type keptItems struct {
	from weak.Pointer[policyItems]
	runs [catalog.NumKinds][]keptRun
}

// keptRun is n items that follow each other in both.
type keptRun struct{ at, from, n int }

// keptFrom returns the items that another catalog had. It is the same for all classes of
// principals: most of them have seen the same catalog last.
func (items *policyItems) keptFrom(before *policyItems) *keptItems {
	kept := &keptItems{from: weak.Make(before)}
	if latest := items.since.Load(); latest != nil && latest.from == kept.from {
		return latest
	}
	for k, all := range items.all {
		old := before.all[k]
		places := make(map[*policy.Item]int, len(old))
		for i, it := range old {
			places[it] = i
		}
		for i := 0; i < len(all); i++ {
			from, ok := places[all[i]]
			if !ok {
				continue
			}
			run := keptRun{i, from, 1}
			for i+1 < len(all) && from+run.n < len(old) && all[i+1] == old[from+run.n] {
				run.n++
				i++
			}
			kept.runs[k] = append(kept.runs[k], run)
		}
	}
	items.since.Store(kept)
	return kept
}

// policyKind returns what an item is for rules. A skill is the resource with its instructions.
func policyKind(k catalog.Kind) string {
	return [catalog.NumKinds]string{catalog.Tools: policy.Tool, catalog.Prompts: policy.Prompt, catalog.Resources: policy.Resource, catalog.Templates: policy.Template, catalog.Skills: policy.Resource}[k]
}

// verdicts are the decisions of a policy about the items of a catalog for a class of principals,
// by kind and place. They are immutable.
type verdicts [catalog.NumKinds][]*policy.Verdict

// of returns the verdict about an entry of the catalog, or of a part of it.
func (d *verdicts) of(e *catalog.Entry) *policy.Verdict { return d[e.Kind][e.Place] }

// decidedItems are the latest decisions for a class of principals. Its views differ by profile,
// and by what clients can do; most of their items are the same.
type decidedItems struct {
	items    *policyItems
	verdicts *verdicts
}

// verdictsFor returns the decisions about items for the class of a subject. An item that was decided
// for the class before keeps its verdict.
func (p *policyInUse) verdictsFor(s *policy.Subject, items *policyItems) *verdicts {
	before, known := p.decided.get(s.Class())
	if known && before.items == items {
		return before.verdicts
	}
	made, lister := new(verdicts), p.Lister(s)
	for k, all := range items.all {
		made[k] = make([]*policy.Verdict, len(all))
	}
	if known {
		for k, runs := range items.keptFrom(before.items).runs {
			for _, run := range runs {
				copy(made[k][run.at:], before.verdicts[k][run.from:run.from+run.n])
			}
		}
	}
	for k, all := range items.all {
		for i, it := range all {
			if made[k][i] == nil {
				made[k][i] = lister.List(it)
			}
		}
	}
	p.decided.set(s.Class(), decidedItems{items, made})
	return made
}
