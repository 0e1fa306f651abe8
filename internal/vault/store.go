// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"context"
	"errors"
)

var (
	// ErrNotFound is the error of a record that does not exist: the principal is signed out.
	ErrNotFound = errors.New("there is no such record")
	// ErrConflict is the error of a change to a record that has another generation.
	ErrConflict = errors.New("the record was changed meanwhile")
	// ErrDamaged is the error of a Store for a record that is not in its form.
	ErrDamaged = errors.New("the record is damaged")
)

// A Store keeps sealed records under names, for all processes that use it. It sees neither
// keys nor anything that a record is about. Its methods may be called concurrently.
//
// [Folder] is the Store of one machine. A Store for several machines implements Lease with
// leases that expire. Its records are safe even then, because each change compares the
// generation.
type Store interface {
	// Names returns the names that begin with a prefix, in no order.
	Names(ctx context.Context, prefix string) ([]string, error)

	// Read returns a record. The error is ErrNotFound, ErrDamaged, or that of the store.
	Read(ctx context.Context, name string) (Sealed, error)

	// Lease waits until no other Lease has one of the names, and returns one that has all
	// of them. It fails when ctx ends.
	Lease(ctx context.Context, names ...string) (Lease, error)
}

// A Lease permits changes to the records of its names. Its methods must not be called
// concurrently.
type Lease interface {
	// Swap replaces the record of a name if its generation is old, or creates it if old is
	// 0 and it does not exist. The error is ErrConflict otherwise. When Swap returns nil the
	// record is durable. After another error either of both records may be there, and
	// neither a part nor a mixture.
	Swap(ctx context.Context, name string, old uint64, record Sealed) error

	// Remove removes the record of a name if its generation is old. The error is ErrConflict
	// if it is another one, and nil if there is no record.
	Remove(ctx context.Context, name string, old uint64) error

	// SetAside takes a record that does not open out of use without deleting it, and
	// returns where it is.
	SetAside(ctx context.Context, name string) (where string, err error)

	// Release ends the lease. It may be called again.
	Release()
}

// Sealed is a record as a Store keeps it.
type Sealed struct {
	Generation uint64 // above 0
	Text       []byte // of one or more lines
}
