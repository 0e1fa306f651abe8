// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package vault keeps the credentials that authorization servers have given to the gateway:
// grants, registrations of clients, the issuers that configured client ids belong to, and the ID
// tokens of users.
//
// A record is identified by its key, such as the principal, backend, issuer, resource and
// client of a grant. It is encrypted and bound to that key, so that a record that was put in
// the place of another one does not open. A [Store] has it under a name from which the key
// cannot be derived.
//
// A record is changed only in exchange for its current generation, also by other processes:
// a failure that belongs to an older generation cannot delete or replace a newer one. To read
// a record, ask an authorization server, and store the answer without another process doing
// the same, hold its [Lock] meanwhile.
package vault

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/internal/seal"
)

// A Vault keeps records in a Store. It is immutable, and its methods may be called
// concurrently.
type Vault struct {
	store Store
	keys  []key
	log   *slog.Logger
}

// key is one secret of a vault.
type key struct {
	id   string // identifies the secret without revealing it
	name []byte // makes the names of records
	box  *seal.Box
}

// keyIDSize is the length of the id of a key in bytes, before it is hexadecimal.
const keyIDSize = 8

// MinKey is the minimal length of a key in bytes.
const MinKey = seal.MinKey

// New returns a vault. The first key seals and all of them open; a record is sealed with the
// first one when it is changed. There must be at least one, and each has at least MinKey
// bytes. Records of other keys are not touched: they are there again when their key is.
func New(store Store, keys [][]byte, log *slog.Logger) (*Vault, error) {
	if len(keys) == 0 {
		return nil, errors.New("a vault needs a key")
	}
	v := &Vault{store: store, log: log}
	for _, secret := range keys {
		k, err := newKey(secret)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(v.keys, func(other key) bool { return other.id == k.id }) {
			v.keys = append(v.keys, k)
		}
	}
	return v, nil
}

func newKey(secret []byte) (key, error) {
	box, err := seal.New(secret)
	if err != nil {
		return key{}, err
	}
	name, err := hkdf.Key(sha256.New, secret, nil, "signalbox vault name 1", sha256.Size)
	if err != nil {
		return key{}, err
	}
	id, err := hkdf.Key(sha256.New, secret, nil, "signalbox vault id 1", keyIDSize)
	if err != nil {
		return key{}, err
	}
	return key{hex.EncodeToString(id), name, box}, nil
}

// hash returns the beginning of an HMAC of the values in hexadecimal.
func (k *key) hash(purpose string, values []string) string {
	mac := hmac.New(sha256.New, k.name)
	for _, v := range append([]string{purpose}, values...) { // each after its length
		_, _ = mac.Write(append(binary.AppendUvarint(nil, uint64(len(v))), v...)) // a hash never fails
	}
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// prefix returns the beginning of the names of all records with a kind and group.
func (k *key) prefix(id identity) string {
	return k.hash("group", append([]string{id.kind}, id.group...))
}

// nameOf returns the name of a record that is sealed with the key.
func (k *key) nameOf(id identity) string { return k.prefix(id) + k.hash("record", id.values()) }

// names returns the names that a record has with each key.
func (v *Vault) names(id identity) []string {
	names := make([]string, len(v.keys))
	for i := range v.keys {
		names[i] = v.keys[i].nameOf(id)
	}
	return names
}

// Load fills in the record with the key of r. The error is ErrNotFound if it does not exist. One
// that does not open is set aside and logged, and then does not exist.
func (v *Vault) Load(ctx context.Context, r Record) error {
	id := r.identity()
	if err := id.check(); err != nil {
		return err
	}
	damaged := false
	// Twice, because a record that is sealed with another key meanwhile changes its name.
	for range min(2, len(v.keys)) {
		for i := range v.keys {
			err := v.read(ctx, &v.keys[i], r)
			switch {
			case err == nil:
				return nil
			case errors.Is(err, ErrDamaged):
				damaged = true
			case !errors.Is(err, ErrNotFound):
				return err
			}
		}
	}
	if !damaged {
		return ErrNotFound
	}
	l, err := v.Lock(ctx, r)
	if err != nil {
		return err
	}
	defer l.Unlock()
	return l.Load(ctx, r)
}

// Save stores r in exchange for the generation that it has, and sets the new one. With
// generation 0 there must be no such record yet. The error is ErrConflict if the record was
// changed or deleted meanwhile; load it again. When Save returns nil the record is durable.
func (v *Vault) Save(ctx context.Context, r Record) error {
	l, err := v.Lock(ctx, r)
	if err != nil {
		return err
	}
	defer l.Unlock()
	return l.Save(ctx, r)
}

// Delete removes the record if it has the generation of r. The error is ErrConflict if it has
// another one. No record is no error.
func (v *Vault) Delete(ctx context.Context, r Record) error {
	l, err := v.Lock(ctx, r)
	if err != nil {
		return err
	}
	defer l.Unlock()
	return l.Delete(ctx, r)
}

// Bind returns the issuer that the client id of a backend belongs to. That is the given one
// if it is the first.
func (v *Vault) Bind(ctx context.Context, backend, client, issuer string) (string, error) {
	b := &Binding{Backend: backend, Client: client}
	err := v.Load(ctx, b)
	if !errors.Is(err, ErrNotFound) {
		return b.Issuer, err
	}
	b.Issuer = issuer
	if err = v.Save(ctx, b); errors.Is(err, ErrConflict) {
		err = v.Load(ctx, b) // of another caller, which was first
	}
	return b.Issuer, err
}

// Grants returns the grants of one principal for one backend, of all issuers and clients. Those
// that do not open are left out.
func (v *Vault) Grants(ctx context.Context, principal, backend string) ([]*Grant, error) {
	return find[*Grant](ctx, v, grantGroup(principal, backend), v.store.Names)
}

// Listing is the names of all records of a Vault at one moment: with it, the grants of many principals
// are found without another list of the store. Its methods may be called concurrently.
type Listing struct {
	v     *Vault
	names []string // sorted
}

// Listing returns the names of the records now.
func (v *Vault) Listing(ctx context.Context) (*Listing, error) {
	names, err := v.store.Names(ctx, "")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return &Listing{v, names}, nil
}

// Grants is Vault.Grants of the records that were there when the Listing was made. They are read
// now.
func (l *Listing) Grants(ctx context.Context, principal, backend string) ([]*Grant, error) {
	return find[*Grant](ctx, l.v, grantGroup(principal, backend), l.with)
}

// with returns the names with a prefix.
func (l *Listing) with(_ context.Context, prefix string) ([]string, error) {
	first, _ := slices.BinarySearch(l.names, prefix)
	var found []string
	for _, name := range l.names[first:] {
		if !strings.HasPrefix(name, prefix) {
			break
		}
		found = append(found, name)
	}
	return found, nil
}

// Registrations returns the clients that are registered with an issuer. Those that do not
// open are left out.
func (v *Vault) Registrations(ctx context.Context, issuer string) ([]*Registration, error) {
	return find[*Registration](ctx, v, (&Registration{Issuer: issuer}).identity(), v.store.Names)
}

func find[R Record](ctx context.Context, v *Vault, group identity, names func(ctx context.Context, prefix string) ([]string, error)) ([]R, error) {
	var found []R
	seen := make(map[string]bool) // a record may be there with two keys for a moment
	for i := range v.keys {
		matching, err := names(ctx, v.keys[i].prefix(group))
		if err != nil {
			return nil, err
		}
		slices.Sort(matching)
		for _, name := range matching {
			record, err := v.open(ctx, name)
			if errors.Is(err, ErrNotFound) || errors.Is(err, ErrDamaged) || errors.Is(err, errOtherKey) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if r, ok := record.(R); ok && !seen[v.keys[0].nameOf(r.identity())] {
				seen[v.keys[0].nameOf(r.identity())] = true
				found = append(found, r)
			}
		}
	}
	return found, nil
}

// Contents is what a Vault has.
type Contents struct {
	Grants        []*Grant
	Registrations []*Registration
	Bindings      []*Binding
	IDTokens      []*IDToken
	Unopened      []Unopened
}

// Unopened is a record that does not open.
type Unopened struct {
	Name  string // in the Store
	Other bool   // it is sealed with a key that the vault does not have, and may not be damaged
	Err   error
}

// List returns everything in the vault, sorted. It opens each record and changes none.
func (v *Vault) List(ctx context.Context) (*Contents, error) {
	names, err := v.store.Names(ctx, "")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	c := new(Contents)
	seen := make(map[string]bool)
	for _, name := range names {
		r, err := v.open(ctx, name)
		switch {
		case errors.Is(err, ErrNotFound): // deleted meanwhile
			continue
		case err != nil:
			c.Unopened = append(c.Unopened, Unopened{name, errors.Is(err, errOtherKey), err})
			continue
		case seen[v.keys[0].nameOf(r.identity())]:
			continue
		}
		seen[v.keys[0].nameOf(r.identity())] = true
		switch r := r.(type) {
		case *Grant:
			c.Grants = append(c.Grants, r)
		case *Registration:
			c.Registrations = append(c.Registrations, r)
		case *Binding:
			c.Bindings = append(c.Bindings, r)
		case *IDToken:
			c.IDTokens = append(c.IDTokens, r)
		}
	}
	byKey := func(a, b Record) int { return slices.Compare(a.identity().values(), b.identity().values()) }
	slices.SortFunc(c.Grants, func(a, b *Grant) int { return byKey(a, b) })
	slices.SortFunc(c.Registrations, func(a, b *Registration) int { return byKey(a, b) })
	slices.SortFunc(c.Bindings, func(a, b *Binding) int { return byKey(a, b) })
	slices.SortFunc(c.IDTokens, func(a, b *IDToken) int { return byKey(a, b) })
	return c, nil
}

// A Lock is a record that no other Lock has, in any process. Its methods must not be called
// concurrently. A caller must not wait for a second Lock while it has one.
type Lock struct {
	v     *Vault
	id    identity
	names []string
	lease Lease
}

// Lock waits for the record with the key of r, which need not exist, and fails when ctx ends.
// The lock of a process that was killed is free.
func (v *Vault) Lock(ctx context.Context, r Record) (*Lock, error) {
	id := r.identity()
	if err := id.check(); err != nil {
		return nil, err
	}
	names := v.names(id)
	lease, err := v.store.Lease(ctx, names...)
	if err != nil {
		return nil, err
	}
	return &Lock{v, id, names, lease}, nil
}

// Unlock gives the record free. It may be called again.
func (l *Lock) Unlock() { l.lease.Release() }

// Load is [Vault.Load].
func (l *Lock) Load(ctx context.Context, r Record) error {
	if err := l.check(r); err != nil {
		return err
	}
	for i := range l.v.keys {
		k := &l.v.keys[i]
		err := l.v.read(ctx, k, r)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrDamaged):
			if err := l.setAside(ctx, l.names[i], err); err != nil {
				return err
			}
		case !errors.Is(err, ErrNotFound):
			return err
		}
	}
	return ErrNotFound
}

// setAside takes a record out of use.
func (l *Lock) setAside(ctx context.Context, name string, cause error) error {
	where, err := l.lease.SetAside(ctx, name)
	if err != nil {
		return fmt.Errorf("set aside a record that does not open: %w", err)
	}
	l.v.log.WarnContext(ctx, "a kept credential does not open and is set aside: its owner is signed out",
		slog.String("record", where), slog.Any("error", cause))
	return nil
}

// check returns an error if r is not the record of the lock.
func (l *Lock) check(r Record) error {
	if !slices.Equal(r.identity().values(), l.id.values()) {
		return errors.New("the lock is that of another record")
	}
	return nil
}

// Save is [Vault.Save].
func (l *Lock) Save(ctx context.Context, r Record) error {
	current, err := l.current(ctx, r)
	if err != nil {
		return err
	}
	// A generation that a deleted record had must not appear again, so that it is the time.
	now := time.Now()
	meta := *r.meta()
	next := Meta{Generation: max(meta.Generation+1, uint64(now.UnixMicro())), Saved: now.UTC().Truncate(time.Second)}
	*r.meta() = next
	plain, err := r.encode()
	if err == nil {
		first := l.v.keys[0]
		sealed := Sealed{next.Generation, first.seal(l.names[0], l.id, next.Generation, plain)}
		err = l.lease.Swap(ctx, l.names[0], current[0], sealed)
	}
	if err != nil {
		*r.meta() = meta
		return err
	}
	// The record is stored. What is left with an older key is not read any more.
	return l.remove(ctx, current, 1)
}

// Delete is [Vault.Delete].
func (l *Lock) Delete(ctx context.Context, r Record) error {
	current, err := l.current(ctx, r)
	if err != nil {
		return err
	}
	return l.remove(ctx, current, 0)
}

// current returns the generation of the record with each key. It returns ErrConflict if the
// one that is in use has another generation than r.
func (l *Lock) current(ctx context.Context, r Record) ([]uint64, error) {
	if err := l.check(r); err != nil {
		return nil, err
	}
	stored, err := newRecord(l.id.values())
	if err != nil {
		return nil, err
	}
	if err := l.Load(ctx, stored); err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	if stored.meta().Generation != r.meta().Generation {
		return nil, ErrConflict
	}
	generations := make([]uint64, len(l.names))
	for i, name := range l.names {
		sealed, err := l.v.store.Read(ctx, name)
		switch {
		case errors.Is(err, ErrDamaged): // Load has not read it, as one of a newer key opens
			if err := l.setAside(ctx, name, err); err != nil {
				return nil, err
			}
		case err == nil:
			generations[i] = sealed.Generation
		case !errors.Is(err, ErrNotFound):
			return nil, err
		}
	}
	return generations, nil
}

// remove removes the record with all keys from the given one on. The oldest is removed first,
// so that none appears again if the process is killed meanwhile.
func (l *Lock) remove(ctx context.Context, generations []uint64, from int) error {
	for i := len(l.names) - 1; i >= from; i-- {
		if generations[i] == 0 {
			continue
		}
		if err := l.lease.Remove(ctx, l.names[i], generations[i]); err != nil {
			return err
		}
	}
	return nil
}

// The text of a record has three lines: the id of the key that seals it, the identity, which
// is bound to the name, and the content, which is bound to the identity.
const (
	purposeKey    = "signalbox vault key"
	purposeRecord = "signalbox vault record"
)

func (k *key) seal(name string, id identity, generation uint64, plain []byte) []byte {
	values, _ := json.Marshal(id.values()) // strings of valid UTF-8 have no errors
	return fmt.Appendf(nil, "%s\n%s\n%s\n", k.id,
		k.box.Seal(purposeKey, values, name),
		k.box.Seal(purposeRecord, plain, bound(id, generation)...))
}

// bound returns what the content of a record is bound to.
func bound(id identity, generation uint64) []string {
	return append([]string{strconv.FormatUint(generation, 10)}, id.values()...)
}

var errOtherKey = errors.New("the record is sealed with another key")

// read fills in r, as it is stored with a key. The error is ErrNotFound, ErrDamaged for a
// record that does not open, or that of the store.
func (v *Vault) read(ctx context.Context, k *key, r Record) error {
	id := r.identity()
	name := k.nameOf(id)
	sealed, err := v.store.Read(ctx, name)
	if err != nil {
		return err
	}
	found, err := k.open(name, sealed)
	if err != nil {
		return err
	}
	set(r, found)
	return nil
}

// set copies a record of the same kind.
func set(to, from Record) {
	switch to := to.(type) {
	case *Grant:
		*to = *from.(*Grant)
	case *Registration:
		*to = *from.(*Registration)
	case *Binding:
		*to = *from.(*Binding)
	case *IDToken:
		*to = *from.(*IDToken)
	}
}

// open returns the record of a name, with the key that its text names.
func (v *Vault) open(ctx context.Context, name string) (Record, error) {
	sealed, err := v.store.Read(ctx, name)
	if err != nil {
		return nil, err
	}
	id, _, _ := bytes.Cut(sealed.Text, []byte("\n"))
	i := slices.IndexFunc(v.keys, func(k key) bool { return k.id == string(id) })
	if i < 0 {
		return nil, errOtherKey
	}
	return v.keys[i].open(name, sealed)
}

// open returns the record of a sealed text. The error is ErrDamaged.
func (k *key) open(name string, sealed Sealed) (Record, error) {
	r, err := k.unseal(name, sealed)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", ErrDamaged, err)
	}
	return r, nil
}

func (k *key) unseal(name string, sealed Sealed) (Record, error) {
	lines := strings.Split(string(sealed.Text), "\n")
	if len(lines) != 4 || lines[0] != k.id || lines[3] != "" {
		return nil, errForm
	}
	plain, err := k.box.Open(purposeKey, lines[1], name)
	if err != nil {
		return nil, err
	}
	var values []string
	if json.Unmarshal(plain, &values) != nil {
		return nil, errKey
	}
	r, err := newRecord(values)
	if err != nil {
		return nil, err
	}
	id := r.identity()
	if k.nameOf(id) != name {
		return nil, errKey
	}
	if plain, err = k.box.Open(purposeRecord, lines[2], bound(id, sealed.Generation)...); err != nil {
		return nil, err
	}
	if err := r.decode(plain); err != nil {
		return nil, err
	}
	r.meta().Generation = sealed.Generation
	return r, nil
}
