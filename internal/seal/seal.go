// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package seal makes what clients keep for us unreadable and unchangeable: the
// state of a request that waits for input, and the ids of tasks. What was sealed
// opens for the purpose, and beside the values, that it was sealed for and for
// nothing else, here or at any replica that has the same secret.
//
// A sealed text says nothing of when it was made or how often it was used: an
// expiry stands inside of it, and single use is kept by whoever needs that.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// MinKey is how many bytes a secret has at least. Fewer than that can be found by
// trying, for which one sealed text is enough.
const MinKey = 32

const (
	// saltSize and nonceSize are random bytes of each text. With the nonce of the
	// cipher alone there would be a bound to how many texts one secret may seal; the
	// salt gives each text a key of its own, and no secret is ever used up.
	saltSize  = 16
	nonceSize = 12
	tagSize   = 16
	overhead  = saltSize + nonceSize + tagSize
)

// ErrSealed is the error of a text that does not open, whatever the reason is: one
// that could be told from another would help those who guess.
var ErrSealed = errors.New("the sealed text does not open")

// Box seals and opens. It is immutable, and its methods may be called
// concurrently. It is made by New.
type Box struct {
	keys [][]byte // of the texts' own keys
}

// New returns a Box of some secrets, which it does not keep. The first one seals
// and all of them open, so that a secret is replaced by putting a new one before
// it and dropping the old one when nothing that it sealed is of use any more.
// Without secrets there is a random one: what it seals opens in this Box alone.
func New(secrets ...[]byte) (*Box, error) {
	if len(secrets) == 0 {
		random := make([]byte, MinKey)
		_, _ = rand.Read(random) // never fails: crypto/rand ends the program where it would
		secrets = [][]byte{random}
	}
	b := &Box{keys: make([][]byte, 0, len(secrets))}
	for i, secret := range secrets {
		if len(secret) < MinKey {
			return nil, fmt.Errorf("secret %d has %d bytes, fewer than %d", i+1, len(secret), MinKey)
		}
		key, err := hkdf.Key(sha256.New, secret, nil, "signalbox seal 1", sha256.Size)
		if err != nil {
			return nil, fmt.Errorf("derive key %d: %w", i+1, err)
		}
		b.keys = append(b.keys, key)
	}
	return b, nil
}

// Seal returns the plain bytes as a text of URL-safe base64. The purpose and the
// bound values do not stand in it: Open has to be given the same ones.
func (b *Box) Seal(purpose string, plain []byte, bound ...string) string {
	raw := make([]byte, saltSize+nonceSize, overhead+len(plain))
	_, _ = rand.Read(raw) // never fails, as above
	raw = aead(b.keys[0], raw[:saltSize]).Seal(raw, raw[saltSize:], plain, context(purpose, bound))
	return base64.RawURLEncoding.EncodeToString(raw)
}

// Open returns what was sealed for this purpose and these values, in their order.
// The error is ErrSealed. The text may be anything that anybody sends.
func (b *Box) Open(purpose, text string, bound ...string) ([]byte, error) {
	// The decoder passes over line breaks, which would give one seal many spellings.
	if strings.ContainsAny(text, "\r\n") {
		return nil, ErrSealed
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < overhead {
		return nil, ErrSealed
	}
	salt, nonce, sealed := raw[:saltSize], raw[saltSize:saltSize+nonceSize], raw[saltSize+nonceSize:]
	known := context(purpose, bound)
	for _, key := range b.keys {
		if plain, err := aead(key, salt).Open(nil, nonce, sealed, known); err == nil {
			return plain, nil
		}
	}
	return nil, ErrSealed
}

// aead returns the cipher of one text.
func aead(key, salt []byte) cipher.AEAD {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write(salt) // a hash takes everything
	block, err := aes.NewCipher(mac.Sum(nil))
	if err != nil {
		panic("seal: a hash of 32 bytes is a key of AES-256: " + err.Error()) //nolint:forbidigo // an invariant of this file
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic("seal: AES has blocks of 16 bytes: " + err.Error()) //nolint:forbidigo // an invariant of the standard library
	}
	return gcm
}

// context is what a text is bound to: each value with its length before it, so
// that no two lists of values are the same bytes.
func context(purpose string, bound []string) []byte {
	size := binary.MaxVarintLen64 + len(purpose)
	for _, v := range bound {
		size += binary.MaxVarintLen64 + len(v)
	}
	out := make([]byte, 0, size)
	out = append(binary.AppendUvarint(out, uint64(len(purpose))), purpose...)
	for _, v := range bound {
		out = append(binary.AppendUvarint(out, uint64(len(v))), v...)
	}
	return out
}
