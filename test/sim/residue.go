// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// noResidue fails where a machine that is over keeps anything: an entry of a map,
// an element of a slice or a list, a channel that somebody may wait on.
func (w *world) noResidue(name string, machine any) {
	seen := make(map[uintptr]bool)
	if at := residue(reflect.ValueOf(machine), seen); at != "" {
		w.fail("I28", "%s is over, and keeps something: %s", name, at)
	}
}

// residue returns where something is kept, or "".
//
// It reads what is not exported. A machine that had to say for itself what it keeps
// would forget just what it has forgotten to clear.
func residue(v reflect.Value, seen map[uintptr]bool) string {
	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		if v.Len() > 0 {
			return " holds " + v.Type().String()
		}
	case reflect.Pointer:
		if v.IsNil() || seen[v.Pointer()] || !isMachine(v.Type().Elem()) {
			return ""
		}
		seen[v.Pointer()] = true
		return residue(v.Elem(), seen)
	case reflect.Struct:
		if !isMachine(v.Type()) {
			return ""
		}
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if name == "session" || name == "set" {
				continue // they are looked at for themselves
			}
			if name == "first" && isSet(v.Field(i)) {
				return " is a list of " + v.Field(i).Type().String()
			}
			if at := residue(v.Field(i), seen); at != "" {
				return "." + name + at
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			if at := residue(v.Index(i), seen); at != "" {
				return at
			}
		}
	default:
	}
	return ""
}

func isSet(v reflect.Value) bool { return v.Kind() == reflect.Pointer && !v.IsNil() }

// isMachine reports whether a type is one of those that keep state: not what many
// of them share, and not what belongs to the client.
func isMachine(t reflect.Type) bool {
	if !strings.HasSuffix(t.PkgPath(), "internal/session") {
		return false
	}
	switch name, _, _ := strings.Cut(t.Name(), "["); name {
	case "Rules", "Counters", "LogPool":
		return false
	default:
		return true
	}
}

// lenOf returns how many elements a field of a machine has.
func lenOf(machine any, field string) int {
	return reflect.ValueOf(machine).Elem().FieldByName(field).Len()
}

// leftIn returns what a pool counts still, or "".
func leftIn(pool *session.LogPool) string {
	v := reflect.ValueOf(pool).Elem()
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		if f.Kind() == reflect.Map && f.Len() > 0 {
			return name
		}
		if f.Type() == reflect.TypeFor[atomic.Int64]() && !f.IsZero() {
			return name
		}
	}
	return ""
}
