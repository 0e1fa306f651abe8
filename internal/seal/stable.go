// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// SealStable is Seal with a deterministic result, for texts that are used as names: the
// same bytes, purpose and values give the same text, as long as the first secret is the
// same. Equal texts reveal that their contents are equal, and nothing else.
//
// In place of random bytes it uses a hash of everything sealed, under its own key, so
// that two texts share them only if they are the same.
func (b *Box) SealStable(purpose string, plain []byte, bound ...string) string {
	mac := hmac.New(sha256.New, stableKey(b.keys[0]))
	known := additionalData(purpose, bound)
	_, _ = mac.Write(additionalData("stable", []string{string(known), string(plain)})) // a hash never fails
	raw := mac.Sum(nil)[:saltSize+nonceSize]
	raw = aead(b.keys[0], raw[:saltSize]).Seal(raw, raw[saltSize:], plain, known)
	return base64.RawURLEncoding.EncodeToString(raw)
}

func stableKey(key []byte) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte("signalbox seal stable")) // longer than a salt, the only other input that is hashed with this key
	return mac.Sum(nil)
}
