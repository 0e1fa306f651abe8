// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// The hints of a tool about what it does (2026-07-28, schema, ToolAnnotations).
const (
	readOnlyHint    = types.String("readOnlyHint")
	destructiveHint = types.String("destructiveHint")
	idempotentHint  = types.String("idempotentHint")
	openWorldHint   = types.String("openWorldHint")
)

// hints returns the annotations as rules that ask the user see them. Without the defaults of the
// specification: by those, each tool without annotations is destructive, and users that are asked
// about each of them agree without reading.
func (it *Item) hints() ref.Val {
	claimed, _ := it.annotations.(traits.Mapper)
	members := make(map[ref.Val]ref.Val)
	if claimed != nil {
		for each := claimed.Iterator(); each.HasNext() == types.True; {
			name := each.Next()
			members[name] = claimed.Get(name)
		}
	}
	claims := false
	for _, name := range [...]types.String{readOnlyHint, destructiveHint, idempotentHint, openWorldHint} {
		_, isBool := members[name].(types.Bool)
		if !isBool {
			members[name] = types.False
		}
		claims = claims || isBool && name == destructiveHint
	}
	if members[destructiveHint] == types.True {
		members[readOnlyHint] = types.False
	}
	members[types.String("unknown")] = types.Bool(it.kind == Tool && !claims && members[readOnlyHint] == types.False)
	return types.NewRefValMap(adapter, members)
}
