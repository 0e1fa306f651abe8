// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import "github.com/signalbox-mcp/signalbox/internal/backend"

// UserListsStatus are the numbers of the users of a backend that lists only for users that are
// signed in. Users are those with access that have used the gateway within ten minutes.
type UserListsStatus struct {
	Users int `json:"users"`
	Lists int `json:"lists"`          // how many different ones they have
	Stale int `json:"stale,omitzero"` // users with lists of before the backend was lost
	Down  int `json:"down,omitzero"`  // users without lists, because it cannot be reached
}

// describe adds what is known of the users of a backend to its status.
func (p *perUser) describe(s *BackendStatus, b *activeBackend) {
	s.Users = new(UserListsStatus)
	states := make(map[string]backend.State) // the best one of each user
	contents := make(map[backend.Content]bool)
	var best *backend.Offer
	for _, u := range p.all.everybody() {
		o, has := u.listsOf(b.Backend)
		if !has {
			continue
		}
		state := backend.Starting
		if o.Offer != nil {
			state = o.State
			if best == nil || isBetter(state, best.State) {
				best = o.Offer
			}
			if o.Known() {
				contents[o.content] = true
			}
		}
		if before, known := states[u.principal]; !known || isBetter(state, before) {
			states[u.principal] = state
		}
	}
	for _, state := range states {
		switch state {
		case backend.Stale:
			s.Users.Stale++
		case backend.Down:
			s.Users.Down++
		default: // known, or requested just now
		}
	}
	s.Users.Users, s.Users.Lists = len(states), len(contents)
	if best != nil {
		s.State, s.Reason, s.Code, s.Version, s.Since = best.State.String(), best.Reason, best.Code, best.Server.Version, best.At
	}
}

// isBetter reports whether a user of a backend in a state has more than in another.
func isBetter(a, b backend.State) bool {
	order := [backend.NumStates]int{backend.Live: 3, backend.Stale: 2, backend.Down: 1}
	return order[a] > order[b]
}

// listsOf returns what a backend offers to the user: an empty userOffer before it has answered. It
// reports false if the user has no access.
func (u *listUser) listsOf(key *backend.Backend) (userOffer, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	one := u.lists[key]
	return (*u.offers.Load())[key], one != nil && one.Backend != nil
}
