// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// Orphans are records that no key of a vault opens. Their owners are signed out.
type Orphans struct {
	Folder string
	Keys   []string       // the ids of the keys of the vault, in their order
	Sealed map[string]int // the number of records by the id of the key that has sealed them
	NoFile string         // the key file, if there are no keys because it does not exist
}

// shortID is the length of the ids in texts: enough to tell keys apart.
const shortID = 8

// FindOrphans returns the orphans in the folder of a vault, or nil without any. It makes
// neither a folder nor a key, opens no record, and does not ask the keyring: the key of a key file
// is chosen once, and is not looked at.
func FindOrphans(ctx context.Context, o Options) (*Orphans, error) {
	folder, err := OpenFolder(o.Folder)
	if err != nil {
		return nil, err
	}
	found := &Orphans{Folder: folder.Path(), Sealed: make(map[string]int)}
	if len(o.Keys) == 0 {
		if _, err := os.Lstat(o.KeyFile); !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		found.NoFile = o.KeyFile
	}
	for _, secret := range o.Keys {
		k, err := newKey(secret)
		if err != nil {
			return nil, err
		}
		found.Keys = append(found.Keys, k.id)
	}
	names, err := folder.Names(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		sealed, err := folder.Read(ctx, name)
		if errors.Is(err, ErrNotFound) || errors.Is(err, ErrDamaged) {
			continue
		}
		if err != nil {
			return nil, err
		}
		id, _, _ := bytes.Cut(sealed.Text, []byte("\n"))
		if isKeyID(id) && !slices.Contains(found.Keys, string(id)) {
			found.Sealed[string(id)]++
		}
	}
	if len(found.Sealed) == 0 {
		return nil, nil
	}
	return found, nil
}

// isKeyID reports whether a text has the form of an id, which that of a damaged record may not have.
func isKeyID(id []byte) bool {
	return len(id) == 2*keyIDSize && len(bytes.Trim(id, "0123456789abcdef")) == 0
}

// Note describes the orphans. Ids in it are shortened.
func (o *Orphans) Note() Note {
	var sealed []string
	for _, id := range slices.Sorted(maps.Keys(o.Sealed)) {
		sealed = append(sealed, fmt.Sprintf("%s sealed with key %s", records(o.Sealed[id]), id[:shortID]))
	}
	text := "in " + o.Folder + " " + strings.Join(sealed, ", ")
	if o.NoFile != "" {
		return Note{
			text + ", and no key is there: the owners would be signed out",
			"restore " + o.NoFile + " or credentials.keys, or write orphans: allow in credentials",
		}
	}
	var keys []string
	for _, id := range o.Keys {
		keys = append(keys, id[:shortID])
	}
	return Note{
		text + ", and credentials.keys has only " + strings.Join(keys, " and ") + ": the owners would be signed out",
		"keep that key at the end of credentials.keys, or write orphans: allow in credentials",
	}
}
