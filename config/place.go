// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strconv"
	"strings"
)

// place identifies a value by its path from the root. name is the end of the path, which is
// used in messages.
type place struct{ path, name string }

// key returns the place of a member. A key with characters of the path syntax is quoted, so
// that places have unique paths.
func (p place) key(key string) place {
	switch {
	// The empty key is quoted, too, or it would not change the path.
	case key == "" || strings.ContainsAny(key, `.[]"`):
		return place{path: p.path + "[" + strconv.Quote(key) + "]", name: key}
	case p.path == "":
		return place{path: key, name: key}
	default:
		return place{path: p.path + "." + key, name: key}
	}
}

// item returns the place of an element.
func (p place) item(i int) place {
	index := "[" + strconv.Itoa(i) + "]"
	return place{path: p.path + index, name: p.name + index}
}

// rejected records the values of a file that are not in the Config, or not as written, because
// they were rejected. It lets the Config be validated in spite of that, so that a problem
// does not hide others, and does not cause further ones. The zero value is that of a Config
// read without problems, or made by a program.
type rejected struct {
	values    map[string]bool // paths of rejected values
	meantKeys map[string]bool // paths of keys that an unknown key may mean
}

func (u *rejected) add(p place)      { addTo(&u.values, p) }
func (u *rejected) addMeant(p place) { addTo(&u.meantKeys, p) }

func addTo(set *map[string]bool, p place) {
	if *set == nil {
		*set = make(map[string]bool)
	}
	(*set)[p.path] = true
}

// has reports whether the value at a place was rejected: it is not missing, but unknown.
func (u *rejected) has(p place) bool { return u.values[p.path] }

// hasOrMeant reports whether the value was rejected, or an unknown key seems to mean the
// place.
func (u *rejected) hasOrMeant(p place) bool { return u.has(p) || u.meantKeys[p.path] }

// hasAnyOrMeant reports whether hasOrMeant is true for one of the places.
func (u *rejected) hasAnyOrMeant(places ...place) bool {
	return slices.ContainsFunc(places, u.hasOrMeant)
}

// hasItem reports whether one of the first n elements of a list was rejected.
func (u *rejected) hasItem(list place, n int) bool {
	for i := range n {
		if u.has(list.item(i)) {
			return true
		}
	}
	return false
}

// parent removes the last element of a path.
func parent(path string) string {
	end := len(path) - 1
	for end > 0 && path[end] != '.' && path[end] != '[' {
		end--
	}
	return path[:max(end, 0)]
}
