// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
)

// Sender sends requests with a token that is refused, on one connection, each time with another
// key id. It must not be used concurrently.
type Sender struct {
	conn    *Conn
	request []byte
	header  []byte // of the token in request
	plain   []byte // that header, before it is encoded
	id      []byte // the key id in plain
}

// NewSender connects. The signature of the token is valid for no key id but its own.
func NewSender(ctx context.Context, t Target, token string) (*Sender, error) {
	plain := []byte(`{"alg":"ES256","kid":"0000000000000000"}`)
	_, rest, ok := strings.Cut(token, ".")
	if !ok {
		return nil, errors.New("the token is no JWT")
	}
	t.Token = base64.RawURLEncoding.EncodeToString(plain) + "." + rest
	r, err := newRequest(t, "", Call{Method: "tools/list"})
	if err != nil {
		return nil, err
	}
	addr, err := t.Host()
	if err != nil {
		return nil, err
	}
	s := &Sender{request: r.bytes, plain: plain}
	at := bytes.Index(s.request, []byte(t.Token))
	s.header = s.request[at : at+base64.RawURLEncoding.EncodedLen(len(plain))]
	s.id = plain[bytes.IndexByte(plain, '0') : len(plain)-len(`"}`)]
	s.conn, err = Dial(ctx, addr, t.Local)
	return s, err
}

// Refused sends the token with a random key id. The error is that of a response other than 401.
func (s *Sender) Refused(ctx context.Context) error {
	const digits = "0123456789abcdef"
	n := rand.Uint64() //nolint:gosec // need not be secret
	for i := range s.id {
		s.id[i] = digits[n&15]
		n >>= 4
	}
	base64.RawURLEncoding.Encode(s.header, s.plain)
	reply, err := s.conn.Exchange(ctx, s.request)
	if err != nil {
		return err
	}
	if reply.Status != 401 {
		return fmt.Errorf("status %d: %.300s", reply.Status, reply.Body)
	}
	return nil
}

// Close closes the connection.
func (s *Sender) Close() { s.conn.Close() }
