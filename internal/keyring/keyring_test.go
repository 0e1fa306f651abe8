// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package keyring

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zalando/go-keyring"
)

// With the library's keyring in memory, as there may be no other.
func TestEntries(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/none")
	keyring.MockInit()
	ctx := t.Context()
	if _, err := Get(ctx, "a"); !errors.Is(err, ErrNoEntry) {
		t.Errorf("got %v before it was set", err)
	}
	if err := errors.Join(Set(ctx, "a", "one"), Set(ctx, "b", "two"), Set(ctx, "a", "three")); err != nil {
		t.Fatal(err)
	}
	if secret, err := Get(ctx, "a"); secret != "three" || err != nil {
		t.Errorf("got %q, %v", secret, err)
	}
	if secret, err := keyring.Get(Service, "b"); secret != "two" || err != nil {
		t.Errorf("the library got %q, %v", secret, err)
	}
	if err := keyring.Delete(Service, "a"); err != nil {
		t.Error(err)
	}
	if _, err := Get(ctx, "a"); !errors.Is(err, ErrNoEntry) {
		t.Errorf("got %v after it was deleted", err)
	}
	keyring.MockInitWithError(errors.New("it is locked"))
	if _, err := Get(ctx, "b"); err == nil || errors.Is(err, ErrNoEntry) || !strings.Contains(err.Error(), "it is locked") {
		t.Errorf("a locked keyring: %v", err)
	}
}

// A keyring that does not answer is an error in time.
func TestNoAnswer(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/none")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	called := make(chan struct{})
	_, err := bounded(ctx, func() (string, error) { <-called; return "", nil })
	close(called)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("got %v", err)
	}
}
