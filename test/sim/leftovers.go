// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/signalbox-mcp/signalbox/internal/session"
)

// checkLeftovers fails if an ended object still holds anything: an entry of a map, an
// element of a slice or a list.
func (w *world) checkLeftovers(name string, machine any) {
	seen := make(map[uintptr]bool)
	if at := leftovers(reflect.ValueOf(machine), seen); at != "" {
		w.fail("I28", "%s has ended, and still holds something: %s", name, at)
	}
}

// leftovers returns the path of something that v still holds, or "".
//
// It reads unexported fields by reflection. A method of the object that reported what it
// holds could forget the same field that its cleanup forgets.
func leftovers(v reflect.Value, seen map[uintptr]bool) string {
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
		return leftovers(v.Elem(), seen)
	case reflect.Struct:
		if !isMachine(v.Type()) {
			return ""
		}
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if name == "session" || name == "set" {
				continue // checked on their own
			}
			if name == "first" && isSet(v.Field(i)) {
				return " is a list of " + v.Field(i).Type().String()
			}
			if at := leftovers(v.Field(i), seen); at != "" {
				return "." + name + at
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			if at := leftovers(v.Index(i), seen); at != "" {
				return at
			}
		}
	default:
	}
	return ""
}

func isSet(v reflect.Value) bool { return v.Kind() == reflect.Pointer && !v.IsNil() }

// isMachine reports whether a type holds state of its own: not state shared by many
// objects.
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

// lenOf returns the length of a field.
func lenOf(machine any, field string) int {
	return reflect.ValueOf(machine).Elem().FieldByName(field).Len()
}

// leftIn returns the field of a pool that is not zero, or "".
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
