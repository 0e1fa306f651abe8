// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package keptlists_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/keptlists"
)

func open(t *testing.T, path string) (*keptlists.Folder, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	return keptlists.Open(path, slog.New(slog.NewTextHandler(&log, nil))), &log
}

func TestReadReturnsWhatWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "below", "lists")
	f, log := open(t, path)
	key := &keptlists.Key{Command: "npx", Env: []string{"TOKEN=hush-hush"}, Headers: []string{"Authorization: hush-hush"}}
	if got := f.Read(key, "0"); got != nil {
		t.Errorf("an empty folder has %q", got)
	}
	for _, content := range []string{"first\n\x00\xff", "second", ""} {
		f.Write(t.Context(), key, "0", []byte(content))
		again, _ := open(t, path)
		if got := again.Read(key, "0"); string(got) != content {
			t.Errorf("read %q, want %q", got, content)
		}
	}
	for _, other := range []keptlists.Key{
		{Command: "npx"}, {Command: "npx", Env: []string{"TOKEN=other"}}, {Command: "npx", Args: key.Env}, {},
	} {
		if got := f.Read(&other, "0"); got != nil {
			t.Errorf("the key %v has %q", other, got)
		}
	}
	if got := f.Read(key, "1"); got != nil {
		t.Errorf("another variant has %q", got)
	}
	if log.Len() > 0 {
		t.Errorf("it logged %s", log)
	}
	files, err := filepath.Glob(filepath.Join(path, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the folder has %q, %v, want one file", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("hush")) || strings.Contains(files[0], "hush") {
		t.Errorf("the file has a secret of the key: %s: %s", files[0], text)
	}
	info, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && os.PathSeparator == '/' {
		t.Errorf("its mode is %v", mode)
	}
}

// A file that is not whole is ignored, with one record each, and can be written again.
func TestDamagedFilesAreIgnored(t *testing.T) {
	path := t.TempDir()
	f, log := open(t, path)
	key := &keptlists.Key{URL: "http://x"}
	f.Write(t.Context(), key, "0", []byte(`{"tools":[1,2,3]}`))
	files, err := filepath.Glob(filepath.Join(path, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	whole, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	damaged := [][]byte{nil, []byte("hello"), whole[:len(whole)-1], append(bytes.Clone(whole), ' '), bytes.Replace(whole, []byte("lists 1"), []byte("lists 2"), 1)}
	for i := range whole {
		other := bytes.Clone(whole)
		other[i] ^= 1
		damaged = append(damaged, other)
	}
	for _, text := range damaged {
		log.Reset()
		if err := os.WriteFile(files[0], text, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := f.Read(key, "0"); got != nil {
			t.Errorf("%q was read as %q", text, got)
		}
		if n := strings.Count(log.String(), "kept lists are ignored"); n != 1 {
			t.Errorf("%q was logged %d times", text, n)
		}
	}
	f.Write(t.Context(), key, "0", []byte("new"))
	if got := f.Read(key, "0"); string(got) != "new" {
		t.Errorf("read %q after it was written again", got)
	}
}

// What is too large is not kept, and what is old is removed.
func TestFilesAreBounded(t *testing.T) {
	path := t.TempDir()
	f, log := open(t, path)
	large, small := &keptlists.Key{Command: "large"}, &keptlists.Key{Command: "small"}
	f.Write(t.Context(), large, "0", make([]byte, 17<<20))
	if got := f.Read(large, "0"); got != nil || !strings.Contains(log.String(), "lists were not kept") {
		t.Errorf("%d bytes were kept; it logged %s", len(got), log)
	}
	f.Write(t.Context(), small, "0", []byte("x"))
	files, err := filepath.Glob(filepath.Join(path, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	long := time.Now().Add(-100 * 24 * time.Hour)
	if err := os.Chtimes(files[0], long, long); err != nil {
		t.Fatal(err)
	}
	later, _ := open(t, path)
	later.Write(t.Context(), large, "0", []byte("y"))
	if got := later.Read(small, "0"); got != nil {
		t.Errorf("an old file is still there: %q", got)
	}
}

func TestNoFolderKeepsNothing(t *testing.T) {
	f := keptlists.Open("", nil)
	f.Write(t.Context(), &keptlists.Key{}, "0", []byte("x"))
	if got := f.Read(&keptlists.Key{}, "0"); got != nil {
		t.Errorf("read %q", got)
	}
}
