// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package keyring reads and writes secrets in the keyring of the operating system: the
// Keychain of macOS, the Credential Manager of Windows, and the Secret Service of Linux
// desktops. Servers and containers have none.
package keyring

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/zalando/go-keyring"
)

// Service is the name under which all entries are kept.
const Service = "signalbox"

// ErrNoEntry is the error of a name that the keyring does not have.
var ErrNoEntry = errors.New("the keyring of this system has no such entry")

// timeout bounds how long the keyring may take. One that is locked asks its user.
const timeout = 30 * time.Second

// Get returns the secret of a name. The error is ErrNoEntry if it has no secret, and
// otherwise why the keyring cannot be used.
func Get(ctx context.Context, name string) (string, error) {
	return bounded(ctx, func() (string, error) { return keyring.Get(Service, name) })
}

// Set stores a secret under a name, in place of one that is there.
func Set(ctx context.Context, name, secret string) error {
	_, err := bounded(ctx, func() (string, error) { return "", keyring.Set(Service, name, secret) })
	return err
}

// bounded calls f, which takes no context, and returns when it or the time has ended.
func bounded(ctx context.Context, f func() (string, error)) (string, error) {
	if err := available(); err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	type result struct {
		secret string
		err    error
	}
	done := make(chan result, 1)
	go func() { // ends with f, perhaps after bounded
		secret, err := f()
		done <- result{secret, err}
	}()
	select {
	case r := <-done:
		switch {
		case errors.Is(r.err, keyring.ErrNotFound):
			return "", ErrNoEntry
		case r.err != nil:
			return "", fmt.Errorf("the keyring of this system cannot be used: %w", r.err)
		}
		return r.secret, nil
	case <-ctx.Done():
		return "", fmt.Errorf("the keyring of this system does not answer: %w", ctx.Err())
	}
}

var errNoBus = errors.New("there is no keyring here (no D-Bus session)")

// available returns an error where there certainly is no keyring. Without a D-Bus session the
// library would start one, without a keyring.
func available() error {
	switch runtime.GOOS {
	case "darwin", "windows":
		return nil
	}
	if os.Getenv("DBUS_SESSION_BUS_ADDRESS") != "" {
		return nil
	}
	for _, name := range []string{"bus", "dbus-session"} {
		if _, err := os.Stat(filepath.Join("/run/user", strconv.Itoa(os.Getuid()), name)); err == nil {
			return nil
		}
	}
	return errNoBus
}
