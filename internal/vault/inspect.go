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
	Protection Protection // "" if no key is configured, and none was made or no record kept
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
	names, err := folder.Names(ctx, "")
	switch {
	case err != nil:
		return nil, err
	case len(names) == 0 && len(keys) == 0: // the keyring is not asked for nothing
		found.Protection = ""
		return found, nil
	case len(keys) == 0:
		var secret []byte
		secret, found.Protection, err = readKey(ctx, o.KeyFile)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			for _, name := range names {
				found.Contents.Unopened = append(found.Contents.Unopened, Unopened{name, true, errOtherKey})
			}
			return found, nil
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

// Note describes records that do not open.
type Note struct {
	Text string
	Cure string // may be empty
}

// Notes describes what does not open.
func (i *Inspection) Notes() []Note {
	other, damaged := 0, 0
	var notes []Note
	for _, u := range i.Contents.Unopened {
		switch {
		case u.Other:
			other++
		case errors.Is(u.Err, ErrDamaged):
			damaged++
		default:
			notes = append(notes, Note{Text: u.Err.Error()})
		}
	}
	if other > 0 {
		text := fmt.Sprintf("in %s %s sealed with a key that is not there any more: the owners are signed out", i.Folder, records(other))
		notes = append(notes, Note{text, "add the former key at the end of credentials.keys"})
	}
	if damaged > 0 {
		notes = append(notes, Note{fmt.Sprintf("in %s %s damaged: the owners are signed out", i.Folder, records(damaged)), "sign in again"})
	}
	return notes
}

func records(n int) string {
	if n == 1 {
		return "1 kept credential is"
	}
	return fmt.Sprintf("%d kept credentials are", n)
}
