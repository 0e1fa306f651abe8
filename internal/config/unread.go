// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import "slices"

// unread is what stands in a file and is not, or not as it stands there, in the
// Config. By it the Config is judged with what could be read: one mistake hides no
// other, and none is told a second time for what follows from it. The zero value is
// that of a Config that was read without problems, or that a program made.
type unread struct {
	refused map[string]bool // paths of what could not be read
	guessed map[string]bool // paths of keys that an unknown one beside them may stand for
}

func (u *unread) refuse(p place) { mark(&u.refused, p) }
func (u *unread) guess(p place)  { mark(&u.guessed, p) }

func mark(set *map[string]bool, p place) {
	if *set == nil {
		*set = make(map[string]bool)
	}
	(*set)[p.path] = true
}

// there reports whether something stands at a place that could not be read: it is
// not missing, and nothing is known of its value.
func (u *unread) there(p place) bool { return u.refused[p.path] }

// meant is there, or what an unknown key beside the place seems to be meant for.
func (u *unread) meant(p place) bool { return u.there(p) || u.guessed[p.path] }

// someMeant reports whether one of several places is meant.
func (u *unread) someMeant(places ...place) bool {
	return slices.ContainsFunc(places, u.meant)
}

// partly reports whether one of the first n elements of a list could not be read.
func (u *unread) partly(list place, n int) bool {
	for i := range n {
		if u.there(list.item(i)) {
			return true
		}
	}
	return false
}
