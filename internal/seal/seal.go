// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package seal encrypts and authenticates data that clients keep for the gateway: the
// state of a request that waits for input, and the ids of tasks. A sealed text opens
// only for the purpose and the values that it was sealed for, here or at any replica
// with the same secret.
//
// A sealed text does not contain its time or how often it was used: put an expiry time
// into the sealed bytes, and track single use separately.
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

// MinKey is the minimal length of a secret in bytes. A shorter one could be found by
// trial, given one sealed text.
const MinKey = 32

const (
	// saltSize and nonceSize are random bytes of each text. The cipher's nonce alone
	// would bound the number of texts that one secret may seal; the salt gives each
	// text its own key, so that there is no such bound.
	saltSize  = 16
	nonceSize = 12
	tagSize   = 16
	overhead  = saltSize + nonceSize + tagSize
)

// ErrSealed is the error of a text that does not open, for any reason: distinct errors
// would help attackers.
var ErrSealed = errors.New("the sealed text does not open")

// A Box seals and opens texts. It is immutable, and its methods may be called
// concurrently. Use New to make one.
type Box struct {
	keys [][]byte // from which the keys of texts are derived
}

// New returns a Box with the given secrets, which it does not keep. The first one seals
// and all of them open. To replace a secret, put a new one before it, and remove the
// old one once its texts are no longer needed. Without secrets a random one is used,
// and its texts open only in this Box.
func New(secrets ...[]byte) (*Box, error) {
	if len(secrets) == 0 {
		random := make([]byte, MinKey)
		_, _ = rand.Read(random) // never fails: crypto/rand crashes the program instead
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

// Seal encrypts the plain bytes and returns a text in URL-safe base64. The purpose and
// the bound values are not in it: the same ones must be passed to Open.
func (b *Box) Seal(purpose string, plain []byte, bound ...string) string {
	raw := make([]byte, saltSize+nonceSize, overhead+len(plain))
	_, _ = rand.Read(raw) // never fails, as above
	raw = aead(b.keys[0], raw[:saltSize]).Seal(raw, raw[saltSize:], plain, additionalData(purpose, bound))
	return base64.RawURLEncoding.EncodeToString(raw)
}

// Open returns the bytes that were sealed for this purpose and these values, in this
// order. The error is ErrSealed. The text is untrusted.
func (b *Box) Open(purpose, text string, bound ...string) ([]byte, error) {
	// The decoder ignores line breaks, which would give one sealed text many spellings.
	if strings.ContainsAny(text, "\r\n") {
		return nil, ErrSealed
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < overhead {
		return nil, ErrSealed
	}
	salt, nonce, sealed := raw[:saltSize], raw[saltSize:saltSize+nonceSize], raw[saltSize+nonceSize:]
	known := additionalData(purpose, bound)
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
	_, _ = mac.Write(salt) // a hash never fails
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

// additionalData encodes the purpose and the bound values, each after its length, so
// that different lists have different bytes.
func additionalData(purpose string, bound []string) []byte {
	out := appendSized(nil, purpose)
	for _, v := range bound {
		out = appendSized(out, v)
	}
	return out
}

func appendSized(dst []byte, v string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
}
