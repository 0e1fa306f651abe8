// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zalando/go-keyring"
)

// key FILE: writes the default key.
var _ = addChild("key", func(ctx context.Context, _ *Folder, args []string) error {
	secret, protection, err := DefaultKey(ctx, args[0])
	fmt.Println(hex.EncodeToString(secret), protection)
	return err
})

// withoutKeyring makes the keyring unusable: there is a bus, and nothing on it.
func withoutKeyring(t *testing.T) {
	t.Helper()
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "none"))
	keyring.MockInitWithError(errors.New("no keyring"))
}

// withKeyring makes the library's keyring in memory the one of the system.
func withKeyring(t *testing.T) {
	t.Helper()
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/none")
	keyring.MockInit()
}

// Processes that make a key at the same time have the same one.
func TestKeyFileIsMadeOnce(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "none"))
	file := filepath.Join(t.TempDir(), "state", "credentials.key")
	var processes []*child
	for range 6 {
		processes = append(processes, start(t, "key", filepath.Join(t.TempDir(), "credentials"), file))
	}
	first := ""
	for _, p := range processes {
		lines, err := p.rest()
		if err != nil || len(lines) != 1 || !strings.HasSuffix(lines[0], " file") || len(lines[0]) != 2*MinKey+len(" file") {
			t.Fatalf("got %q, %v, %s", lines, err, &p.err)
		}
		if first == "" {
			first = lines[0]
		}
		if lines[0] != first {
			t.Errorf("got the keys %s and %s", first, lines[0])
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 && os.PathSeparator == '/' {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
}

// The key is in the keyring if there is one, and then it is not made a second time where the
// keyring is locked.
func TestKeyInKeyring(t *testing.T) {
	withKeyring(t)
	file := filepath.Join(t.TempDir(), "credentials.key")
	secret, protection, err := DefaultKey(t.Context(), file)
	if err != nil || protection != InKeyring || len(secret) != MinKey {
		t.Fatalf("got %d bytes, %s, %v", len(secret), protection, err)
	}
	again, protection, err := DefaultKey(t.Context(), file)
	if err != nil || protection != InKeyring || !bytes.Equal(again, secret) {
		t.Errorf("got another key: %s, %v", protection, err)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(text), "keyring credentials-") || strings.Contains(string(text), hex.EncodeToString(secret)) {
		t.Errorf("the file has %q, %v", text, err)
	}
	keyring.MockInitWithError(errors.New("it is locked"))
	if _, _, err := DefaultKey(t.Context(), file); err == nil || !strings.Contains(err.Error(), "it is locked; unlock the keyring, name keys in credentials.keys, or remove the file and sign in again") {
		t.Errorf("a locked keyring: %v", err)
	}
	keyring.MockInit()
	if _, _, err := DefaultKey(t.Context(), file); err == nil || !strings.Contains(err.Error(), "has no such entry") {
		t.Errorf("an empty keyring: %v", err)
	}
	if kept, _ := os.ReadFile(file); !bytes.Equal(kept, text) {
		t.Errorf("the file was changed to %q", kept)
	}
}

// A caller that gives up while the keyring asks its user has not chosen a file for the key.
func TestKeyOfEndedContext(t *testing.T) {
	withoutKeyring(t)
	file := filepath.Join(t.TempDir(), "credentials.key")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := makeKey(ctx, file); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file was made: %v", err)
	}
}

// A key that cannot take its place is not left beside it.
func TestKeyFileIsNotReplaced(t *testing.T) {
	withoutKeyring(t)
	file := filepath.Join(t.TempDir(), "credentials.key")
	if err := os.MkdirAll(filepath.Join(file, "other"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := makeKey(t.Context(), file); err == nil || strings.Contains(err.Error(), "remove") {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Lstat(file + newSuffix); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the key is in %s%s (%v)", file, newSuffix, err)
	}
}

func TestWrongKeyFiles(t *testing.T) {
	withoutKeyring(t)
	for _, text := range []string{"", "key", "key AAAA\n", "key " + strings.Repeat("!", 43) + "\n", "other x\n", strings.Repeat("key", 1000)} {
		file := filepath.Join(t.TempDir(), "credentials.key")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := DefaultKey(t.Context(), file); err == nil || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "!!!") {
			t.Errorf("%.20q: %v", text, err)
		}
		if kept, _ := os.ReadFile(file); string(kept) != text {
			t.Errorf("%.20q was changed to %q", text, kept)
		}
	}
}

// A vault without configured keys opens again with the key that it has made.
func TestOpen(t *testing.T) {
	withoutKeyring(t)
	state := t.TempDir()
	o := Options{Folder: filepath.Join(state, "credentials"), KeyFile: filepath.Join(state, "credentials.key"), Log: slog.New(slog.DiscardHandler)}
	for i := range 2 {
		v, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if v.Protection != InFile || v.KeyFile != o.KeyFile {
			t.Errorf("protected by %s, %s", v.Protection, v.KeyFile)
		}
		if i == 0 {
			mustSave(t, v.Vault, aliceGrant())
		} else if err := v.Load(t.Context(), &Grant{GrantKey: aliceKey}); err != nil {
			t.Error(err)
		}
	}
	o.Keys = [][]byte{secretOf("a")}
	v, err := Open(t.Context(), o)
	if err != nil || v.Protection != Configured || v.KeyFile != "" {
		t.Fatalf("with keys: %+v, %v", v, err)
	}
	if err := v.Load(t.Context(), &Grant{GrantKey: aliceKey}); !errors.Is(err, ErrNotFound) {
		t.Errorf("opened with another key: %v", err)
	}
	o.Keys = [][]byte{[]byte("short")}
	if _, err := Open(t.Context(), o); err == nil || strings.Contains(err.Error(), "short") {
		t.Errorf("with a short key: %v", err)
	}
}

// An inspection makes nothing, and describes what does not open (identity fault 40).
func TestInspect(t *testing.T) {
	withoutKeyring(t)
	state := t.TempDir()
	o := Options{Folder: filepath.Join(state, "credentials"), KeyFile: filepath.Join(state, "credentials.key"), Log: slog.New(slog.DiscardHandler)}
	found, err := Inspect(t.Context(), o)
	if err != nil || found.Protection != "" || len(found.Notes()) != 0 {
		t.Errorf("without anything: %+v, %v", found, err)
	}
	if files, _ := os.ReadDir(state); len(files) != 0 {
		t.Errorf("it has made %v", files)
	}
	inspect := func(letters string, protection Protection, grants int, notes ...string) {
		t.Helper()
		o := o
		for _, letter := range letters {
			o.Keys = append(o.Keys, secretOf(string(letter)))
		}
		found, err := Inspect(t.Context(), o)
		if err != nil || found.Protection != protection || len(found.Contents.Grants) != grants {
			t.Errorf("keys %q: %+v, %v", letters, found, err)
			return
		}
		var got []string
		for _, n := range found.Notes() {
			got = append(got, n.Text+" ("+n.Cure+")")
		}
		if diff := cmp.Diff(notes, got); diff != "" {
			t.Errorf("keys %q (-want +got):\n%s", letters, diff)
		}
	}
	v, _ := newVault(t, o.Folder, "a")
	alice, bob := aliceGrant(), aliceGrant()
	bob.Principal = "corp:bob"
	mustSave(t, v, alice)
	mustSave(t, v, bob)
	const other = "sealed with a key that is not there any more: the owners are signed out (add the former key at the end of credentials.keys)"
	inspect("a", Configured, 2)
	inspect("ba", Configured, 2)
	inspect("b", Configured, 0, "in "+o.Folder+" 2 kept credentials are "+other)
	inspect("", "", 0, "in "+o.Folder+" 2 kept credentials are "+other)
	if _, _, err := DefaultKey(t.Context(), o.KeyFile); err != nil {
		t.Fatal(err)
	}
	inspect("", InFile, 0, "in "+o.Folder+" 2 kept credentials are "+other)
	file := filepath.Join(o.Folder, v.names(bob.identity())[0])
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text[:len(text)-2], 0o600); err != nil {
		t.Fatal(err)
	}
	inspect("a", Configured, 1, "in "+o.Folder+" 1 kept credential is damaged: the owners are signed out (sign in again)")
	if os.PathSeparator == '/' {
		if err := os.Chmod(file, 0o644); err != nil {
			t.Fatal(err)
		}
		inspect("a", Configured, 1, "other users can open "+file+" (mode 0644): chmod 600 "+file+" ()")
	}
}
