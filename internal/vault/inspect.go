// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// Inspection is the state of a folder of records, for a user.
type Inspection struct {
	Folder     string
	Protection Protection // "" if there is no key yet
	Contents   Contents
}

// Inspect looks at what Open would open. It makes neither a folder nor a key, and changes
// nothing. Without configured keys it may ask the keyring of the system.
func Inspect(ctx context.Context, o Options) (*Inspection, error) {
	folder, err := OpenFolder(o.Folder)
	if err != nil {
		return nil, err
	}
	found := &Inspection{Folder: folder.Path(), Protection: Configured}
	keys := o.Keys
	if len(keys) == 0 {
		var secret []byte
		secret, found.Protection, err = readKey(ctx, o.KeyFile)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return found, found.listWithoutKey(ctx, folder)
		case err != nil:
			return nil, err
		}
		keys = [][]byte{secret}
	}
	v, err := New(folder, keys, o.Log)
	if err != nil {
		return nil, err
	}
	c, err := v.List(ctx)
	if err != nil {
		return nil, err
	}
	found.Contents = *c
	return found, nil
}

// listWithoutKey lists records that no key opens.
func (i *Inspection) listWithoutKey(ctx context.Context, folder *Folder) error {
	names, err := folder.Names(ctx, "")
	for _, name := range names {
		i.Contents.Unopened = append(i.Contents.Unopened, Unopened{name, true, errOtherKey})
	}
	return err
}

// Notes describes what does not open, a sentence each with its cure in parentheses.
func (i *Inspection) Notes() []string {
	other, damaged := 0, 0
	var notes []string
	for _, u := range i.Contents.Unopened {
		switch {
		case u.Other:
			other++
		case errors.Is(u.Err, ErrDamaged):
			damaged++
		default:
			notes = append(notes, u.Err.Error())
		}
	}
	if other > 0 {
		notes = append(notes, fmt.Sprintf("in %s %s sealed with a key that is not there any more: the owners are signed out (add the former key at the end of credentials.keys)", i.Folder, records(other)))
	}
	if damaged > 0 {
		notes = append(notes, fmt.Sprintf("in %s %s damaged: the owners are signed out (sign in again)", i.Folder, records(damaged)))
	}
	return notes
}

func records(n int) string {
	if n == 1 {
		return "1 kept credential is"
	}
	return fmt.Sprintf("%d kept credentials are", n)
}
