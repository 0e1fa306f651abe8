// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// SealStable is Seal for what is a name: the same bytes, for the same purpose and
// the same values, are always the same text, as long as the first secret is the
// same. That two texts are equal says so of what they hold, and nothing else.
//
// What is random in the text of Seal is here a hash of all that is sealed, under a
// key of its own: two texts have it in common only where they are the same.
func (b *Box) SealStable(purpose string, plain []byte, bound ...string) string {
	mac := hmac.New(sha256.New, stableKey(b.keys[0]))
	known := context(purpose, bound)
	_, _ = mac.Write(context("stable", []string{string(known), string(plain)})) // a hash takes everything
	raw := make([]byte, 0, overhead+len(plain))
	raw = append(raw, mac.Sum(nil)[:saltSize+nonceSize]...)
	raw = aead(b.keys[0], raw[:saltSize]).Seal(raw, raw[saltSize:], plain, known)
	return base64.RawURLEncoding.EncodeToString(raw)
}

func stableKey(key []byte) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte("signalbox seal stable")) // longer than a salt, which is all else that the key hashes
	return mac.Sum(nil)
}
