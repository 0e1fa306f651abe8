// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package keptlists keeps in files what servers have offered, so that a later run can
// offer it before it has started the servers.
//
// A file belongs to one [Key], which tells how a server is launched: another version,
// address or credential is another server. The files contain no part of the key, and so
// none of its secrets, but for a hash of the whole.
package keptlists

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/safefile"
)

// Key is how a server is launched, and with what.
type Key struct {
	Transport string
	Command   string
	Args      []string
	Cwd       string
	Env       []string // "NAME=value", sorted
	URL       string
	Headers   []string // "Name: value", sorted
	Era       string
}

// name returns the name of the file of one variant.
func (k *Key) name(variant string) (string, error) {
	raw, err := json.Marshal(k) // an unambiguous form of all members
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16]) + "-" + variant + suffix, nil
}

const (
	suffix = ".lists"

	// header begins each file. It changes with the format.
	header = "signalbox lists 1\n"

	// maxFile bounds the size of a file. Larger lists are not kept.
	maxFile = 16 << 20

	// maxFiles and maxAge bound what is left of servers that are no longer configured.
	maxFiles = 1024
	maxAge   = 60 * 24 * time.Hour
)

// Folder is a folder with kept lists. A nil Folder keeps nothing. Its methods may be
// called concurrently, also by several processes.
type Folder struct {
	path  string
	log   *slog.Logger
	prune sync.Once
}

// Open returns the folder of that path, which is created when something is kept. It
// returns nil for "".
func Open(path string, logger *slog.Logger) *Folder {
	if path == "" {
		return nil
	}
	return &Folder{path: path, log: logger}
}

// Read returns what was kept of a server, or nil. A file that was damaged, or written by
// another program, is logged and ignored.
func (f *Folder) Read(k *Key, variant string) []byte {
	if f == nil {
		return nil
	}
	name, err := k.name(variant)
	if err != nil {
		return nil
	}
	file, err := safefile.Read(filepath.Join(f.path, name), maxFile)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !file.Exists { // the folder, or the file
		return nil
	}
	var content []byte
	if err == nil {
		content, err = check(file.Text)
	}
	if err != nil {
		f.Ignore(k, variant, err)
		return nil
	}
	return content
}

// Ignore logs that a file is not used.
func (f *Folder) Ignore(k *Key, variant string, why error) {
	name, _ := k.name(variant) // as in Read
	f.log.Warn("kept lists are ignored", slog.String("file", filepath.Join(f.path, name)), slog.Any("err", why))
}

var errDamaged = errors.New("it is damaged, or was not written by this version")

// check returns the content of a file if it is complete.
func check(text []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(text, []byte(header))
	sum, content, found := bytes.Cut(rest, []byte("\n"))
	if want := sha256.Sum256(content); !ok || !found || string(sum) != hex.EncodeToString(want[:]) {
		return nil, errDamaged
	}
	return content, nil
}

// Write keeps the content. A failure is logged: without the file the next run only
// starts the server earlier.
func (f *Folder) Write(ctx context.Context, k *Key, variant string, content []byte) {
	if f == nil {
		return
	}
	if err := f.write(ctx, k, variant, content); err != nil {
		f.log.InfoContext(ctx, "lists were not kept for the next start", slog.Any("err", err))
	}
}

func (f *Folder) write(ctx context.Context, k *Key, variant string, content []byte) error {
	name, err := k.name(variant)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	text := fmt.Appendf(nil, "%s%s\n%s", header, hex.EncodeToString(sum[:]), content)
	if len(text) > maxFile {
		return fmt.Errorf("they have %d bytes; at most %d are kept", len(text), maxFile)
	}
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return err
	}
	f.prune.Do(f.removeOld)
	path := filepath.Join(f.path, name)
	file, err := safefile.Read(path, maxFile)
	if err != nil {
		return err
	}
	err = file.Replace(ctx, text, "")
	if errors.Is(err, safefile.ErrChanged) {
		return nil // another gateway has just written the same
	}
	return err
}

// removeOld removes the files that were not written for long, and the oldest of too
// many.
func (f *Folder) removeOld() {
	paths, _ := filepath.Glob(filepath.Join(f.path, "*"+suffix)) // the pattern is valid
	type file struct {
		path    string
		written time.Time
	}
	var files []file
	for _, path := range paths {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() {
			files = append(files, file{path, info.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b file) int { return b.written.Compare(a.written) }) // newest first
	for i, old := range files {
		if i >= maxFiles || time.Since(old.written) > maxAge {
			_ = os.Remove(old.path) // another process may have removed it
		}
	}
}
