// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ledger records what the gateway has written into the files of MCP clients, so that
// its entry can be told from one that somebody has changed, and so that a file can get back
// the bytes that it had before.
//
// There is one ledger for a user, and not one for each configuration: a file of a client has
// one entry for the gateway, whichever configuration it was written for, and must be
// recognized when the client is connected to another one.
//
// A file has a folder in the ledger, named after the hash of its path:
//
//	record.json  a Record
//	original     the first content of the file that was replaced; it is kept for good
//	before       the content before the entry was written, unless there was no file
//
// The copies may have credentials in them: only their user can read them.
package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Ledger is the folder of a ledger, which is created when it is needed. Calls for one file
// must not be concurrent: its user holds the lock that Lock names.
type Ledger string

// Record is what was written into one file.
type Record struct {
	File    string `json:"file"`    // without links
	Client  string `json:"client"`  // its ID
	Project bool   `json:"project"` // the file is one of a project
	Config  string `json:"config"`  // the configuration that the entry is for

	// Entries has the hash of the entry. It has two while the file is being replaced.
	Entries []string `json:"entries"`
	// After is the hash of the whole file as it was written.
	After string `json:"after"`
	// Existed reports whether there was a file before.
	Existed bool `json:"existed"`
	// Whole reports whether the content before can be given back while the file has the hash
	// After: nothing else has changed it between two changes of the gateway.
	Whole bool `json:"whole"`
}

// The names of the files in the folder of a file.
const (
	recordName   = "record.json"
	originalName = "original"
	beforeName   = "before"
)

// folder returns the folder for a file.
func (l Ledger) folder(file string) string {
	sum := sha256.Sum256([]byte(file))
	return filepath.Join(string(l), hex.EncodeToString(sum[:8]))
}

// Lock returns the path of the lock for a file.
func (l Ledger) Lock(file string) string { return filepath.Join(l.folder(file), "lock") }

// Original returns the path of the first content of a file. It does not exist if the file was
// new.
func (l Ledger) Original(file string) string { return filepath.Join(l.folder(file), originalName) }

// Hash returns the hash of the content of a file.
func Hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Find returns the record of a file, or nil.
func (l Ledger) Find(file string) (*Record, error) {
	return read(filepath.Join(l.folder(file), recordName))
}

func read(path string) (*Record, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := new(Record)
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	if err != nil {
		return nil, fmt.Errorf("read what was written into the file of a client: %s: %w (remove this file; the entry then counts as one that somebody has changed)", path, err)
	}
	return r, nil
}

// All returns all records, in the order of their files. The error joins those of records that
// cannot be read.
func (l Ledger) All() ([]Record, error) {
	folders, err := os.ReadDir(string(l))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	var all []Record
	for _, folder := range folders {
		r, failed := read(filepath.Join(string(l), folder.Name(), recordName))
		err = errors.Join(err, failed)
		if r != nil {
			all = append(all, *r)
		}
	}
	slices.SortFunc(all, func(a, b Record) int { return strings.Compare(a.File, b.File) })
	return all, err
}

// Begin is called before a file is replaced, with its content. With keep, what Before returns
// stays as it is. After a crash between Begin and Done, both the old entry and the new one are
// recognized.
func (l Ledger) Begin(r Record, content []byte, keep bool) error {
	old, err := l.Find(r.File)
	if err != nil {
		return err
	}
	if old != nil {
		r.Entries = slices.Concat(r.Entries, old.Entries)
	}
	if err := os.MkdirAll(l.folder(r.File), 0o700); err != nil {
		return err
	}
	if r.Existed {
		if err := l.copyOf(r.File, content, keep); err != nil {
			return err
		}
	}
	return l.put(r)
}

// copyOf keeps the content of a file: as the original if there is none, and unless keep is set
// for Before.
func (l Ledger) copyOf(file string, content []byte, keep bool) error {
	_, err := os.Stat(l.Original(file))
	if errors.Is(err, fs.ErrNotExist) {
		err = write(l.Original(file), content)
	}
	if err != nil || keep {
		return err
	}
	return write(filepath.Join(l.folder(file), beforeName), content)
}

// Done records that a file was replaced.
func (l Ledger) Done(r Record) error { return l.put(r) }

func (l Ledger) put(r Record) error {
	text, err := json.Marshal(r, jsontext.WithIndent(" "))
	if err != nil {
		return err
	}
	return write(filepath.Join(l.folder(r.File), recordName), append(text, '\n'))
}

// Before returns the content of a file before the entry was written.
func (l Ledger) Before(file string) ([]byte, error) {
	return os.ReadFile(filepath.Join(l.folder(file), beforeName))
}

// Forget removes the record of a file. The original stays.
func (l Ledger) Forget(file string) error {
	var errs []error
	for _, name := range []string{recordName, beforeName} {
		if err := os.Remove(filepath.Join(l.folder(file), name)); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// write replaces a file, so that after a crash it has the old content or the new one.
func write(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
