// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/keyring"
	"github.com/signalbox-mcp/signalbox/internal/safefile"
)

// Protection is where the keys of a vault are.
type Protection string

// The places of keys, with what they protect a copy of the records from.
const (
	// Configured keys are those of the configuration, most often variables. A copy of the
	// disk has the records without the keys.
	Configured Protection = "configured"
	// InKeyring is a key in the keyring of the system, which is open while its user is
	// signed in. A copy of the disk has the records without the key.
	InKeyring Protection = "keyring"
	// InFile is a key in a file of the user. A copy of the disk has both. Only other users
	// of the machine, and a copy of the records alone, are kept out.
	InFile Protection = "file"
)

// Options are those of Open.
type Options struct {
	Folder string // of the records
	// Keys are those of the configuration. Without any, the key is made at the first use and
	// found by KeyFile, which has it, or the name of its entry in the keyring.
	Keys    [][]byte
	KeyFile string
	Log     *slog.Logger
}

// NewOptions returns the options for "credentials" of a configuration. What is empty there is
// in the state folder of the configuration.
func NewOptions(dir string, keys [][]byte, state string, log *slog.Logger) Options {
	if dir == "" {
		dir = filepath.Join(state, "credentials")
	}
	return Options{Folder: dir, Keys: keys, KeyFile: filepath.Join(state, "credentials.key"), Log: log}
}

// Opened is a vault with its keys.
type Opened struct {
	*Vault
	Protection Protection
	KeyFile    string // "" if the keys are Configured
}

// Open opens the vault in a folder of this machine.
func Open(ctx context.Context, o Options) (*Opened, error) {
	folder, err := OpenFolder(o.Folder)
	if err != nil {
		return nil, err
	}
	keys, protection, file := o.Keys, Configured, ""
	if len(keys) == 0 {
		var secret []byte
		if secret, protection, err = DefaultKey(ctx, o.KeyFile); err != nil {
			return nil, err
		}
		keys, file = [][]byte{secret}, o.KeyFile
	}
	v, err := New(folder, keys, o.Log)
	if err != nil {
		return nil, err
	}
	return &Opened{v, protection, file}, nil
}

// A key file has one line: one of these words, and the key in base64 or the name of its entry
// in the keyring.
const (
	keyWord     = "key"
	keyringWord = "keyring"
	maxKeyFile  = 1 << 10
)

// DefaultKey returns the key that a key file has or refers to. If the file does not exist it
// makes a key, in the keyring of the system if there is one, and otherwise in the file.
// Processes that do so at the same time get the same key.
//
// A key that the file refers to, and that the keyring does not have or does not open, is an
// error: another key would sign everyone out.
func DefaultKey(ctx context.Context, file string) ([]byte, Protection, error) {
	secret, protection, err := readKey(ctx, file)
	if !errors.Is(err, fs.ErrNotExist) {
		return secret, protection, err
	}
	unlock, err := safefile.Lock(ctx, file+lockSuffix)
	if err != nil {
		return nil, "", err
	}
	defer unlock()
	if secret, protection, err = readKey(ctx, file); !errors.Is(err, fs.ErrNotExist) {
		return secret, protection, err
	}
	return makeKey(ctx, file)
}

// readKey returns the key of a file. The error is fs.ErrNotExist if there is no file.
func readKey(ctx context.Context, file string) ([]byte, Protection, error) {
	text, err := readPrivate(file, maxKeyFile)
	if err != nil {
		return nil, "", err
	}
	word, value, _ := strings.Cut(strings.TrimSuffix(string(text), "\n"), " ")
	switch word {
	case keyWord:
		secret, err := base64.RawStdEncoding.Strict().DecodeString(value)
		if err != nil || len(secret) < MinKey {
			return nil, "", fmt.Errorf("the key of the kept credentials in %s is damaged: restore the file, or remove it and sign in again", file)
		}
		return secret, InFile, nil
	case keyringWord:
		encoded, err := keyring.Get(ctx, value)
		if err != nil {
			return nil, "", fmt.Errorf("the key of the kept credentials is in the keyring of this system (entry %q, named by %s): %w; unlock the keyring, name keys in credentials.keys, or remove the file and sign in again", value, file, err)
		}
		secret, err := base64.RawStdEncoding.Strict().DecodeString(encoded)
		if err != nil || len(secret) < MinKey {
			return nil, "", fmt.Errorf("the entry %q of the keyring of this system, named by %s, is not a key: remove the file and sign in again", value, file)
		}
		return secret, InKeyring, nil
	}
	return nil, "", fmt.Errorf("%s is not a file with a key: remove it and sign in again", file)
}

// makeKey makes a key and its file.
func makeKey(ctx context.Context, file string) ([]byte, Protection, error) {
	secret := make([]byte, MinKey)
	_, _ = rand.Read(secret) // never fails: crypto/rand crashes the program instead
	encoded := base64.RawStdEncoding.EncodeToString(secret)
	name := "credentials-" + strings.ToLower(rand.Text()[:12])
	line, protection := keyringWord+" "+name, InKeyring
	if !storeInKeyring(ctx, name, encoded) {
		line, protection = keyWord+" "+encoded, InFile
	}
	// A caller that has given up must not choose the file because of that.
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, "", err
	}
	f := &Folder{step: func(string) {}}
	if err := f.replace(file, []byte(line+"\n")); err != nil {
		return nil, "", err
	}
	return secret, protection, nil
}

// storeInKeyring reports whether the keyring has a secret afterwards. Why it has not is no
// matter: the key file does without it.
func storeInKeyring(ctx context.Context, name, encoded string) bool {
	if keyring.Set(ctx, name, encoded) != nil {
		return false
	}
	stored, err := keyring.Get(ctx, name)
	return err == nil && stored == encoded
}
