// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/question"
	"github.com/signalbox-mcp/signalbox/internal/seal"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// stateLife is how long a client may take for one round of questions, long enough for a
// user's lunch break.
const stateLife = 2 * time.Hour

// receivedAnswers holds the answers in a request and those that the function has used.
type receivedAnswers struct {
	mu       sync.Mutex
	received map[string]Answer
	used     map[string]Answer
}

// inputRequired is the error of a function that must be called again with the answers
// (2026-07-28, basic/patterns/mrtr).
type inputRequired struct{ questions []Question }

func (*inputRequired) Error() string { return "input is required" }

// Input asks the client several questions at once and returns the answers by their
// keys. If the client has to come back with the answers, Input returns an error, which
// the function must return. The function is then called again, and Input returns all
// answers so far. Code before Input runs again each time and should be safe to repeat;
// the keys of different rounds must differ.
//
// An answer is checked against its method's form. The function must check its content.
// Answers to other keys are ignored.
func (c *Call) Input(ctx context.Context, questions ...Question) (map[string]Answer, error) {
	for _, q := range questions {
		if err := c.checkDeclared(q); err != nil {
			return nil, err
		}
	}
	if !c.Request.TakesInputRequired || c.isTask() {
		return c.askAll(ctx, questions)
	}
	g, err := c.answers()
	if err != nil {
		return nil, err
	}
	return g.take(questions)
}

// take returns the answers to the questions, or an error for those without an answer.
func (g *receivedAnswers) take(questions []Question) (map[string]Answer, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var missing []Question
	answers := make(map[string]Answer, len(questions))
	for _, q := range questions {
		a, ok := g.received[q.Key]
		if !ok {
			missing = append(missing, q)
			continue
		}
		if !question.IsAnswer(q.Method, []byte(a)) {
			return nil, invalid("params.inputResponses.%s is not a valid answer to %s", q.Key, q.Method)
		}
		answers[q.Key], g.used[q.Key] = a, a
	}
	if missing != nil {
		return nil, &inputRequired{missing}
	}
	return answers, nil
}

// answers returns the answers in the request: those sealed in its state, and those to
// the last questions. They are read once.
func (c *Call) answers() (*receivedAnswers, error) {
	c.readOnce.Do(func() { c.received, c.unreadable = c.readAnswers() })
	return c.received, c.unreadable
}

func (c *Call) readAnswers() (*receivedAnswers, error) {
	came, err := c.openState()
	if err != nil {
		return nil, err
	}
	if raw := c.Request.Params.Raw(mcp.FieldInputResponses); raw != nil {
		var fresh map[string]jsontext.Value
		if err := json.Unmarshal(raw, &fresh); err != nil || fresh == nil {
			return nil, invalid("params.inputResponses must be an object")
		}
		for key, value := range fresh {
			came[key] = Answer(value)
		}
	}
	return &receivedAnswers{received: came, used: make(map[string]Answer)}, nil
}

// result returns the result for the client. It includes the answers so far, sealed,
// which the client sends again.
func (i *inputRequired) result(c *Call) (*mcp.Result, error) {
	requests := make(map[string]map[string]jsontext.Value, len(i.questions))
	for _, q := range i.questions {
		requests[q.Key] = map[string]jsontext.Value{"method": jsonscan.AppendString(nil, q.Method), "params": jsontext.Value(q.Params)}
	}
	state, err := c.sealState()
	if err != nil {
		return nil, err
	}
	return result(map[string]any{"resultType": mcp.ResultInputRequired, "inputRequests": requests, "requestState": state})
}

// lazyBox holds the box that seals the state kept by clients.
type lazyBox struct {
	once sync.Once
	box  *seal.Box
	err  error
}

func (m *Mux) seals() (*seal.Box, error) {
	m.box.once.Do(func() { m.box.box, m.box.err = seal.New(m.StateKeys...) })
	return m.box.box, m.box.err
}

// statePurpose is the purpose of the seal.
const statePurpose = "mux: answers so far"

// sealState returns the answers that the function has used so far, with an expiry time,
// sealed.
func (c *Call) sealState() (string, error) {
	box, err := c.mux.seals()
	if err != nil {
		return "", err
	}
	answers, err := c.used()
	if err != nil {
		return "", err
	}
	plain := binary.BigEndian.AppendUint64(nil, uint64(time.Now().Add(stateLife).Unix()))
	return box.Seal(statePurpose, append(plain, answers...), c.Request.Principal, c.Request.Method, c.digest()), nil
}

// used encodes the answers that the function has used.
func (c *Call) used() ([]byte, error) {
	c.received.mu.Lock()
	defer c.received.mu.Unlock()
	values := make(map[string]jsontext.Value, len(c.received.used))
	for key, a := range c.received.used {
		values[key] = jsontext.Value(a)
	}
	return json.Marshal(values, json.Deterministic(true))
}

// openState returns the answers of earlier rounds. The state comes from the client and
// is not trusted: it opens only for the principal and the request that it was made for,
// until it expires (2026-07-28, basic/patterns/mrtr, "Server Requirements").
func (c *Call) openState() (map[string]Answer, error) {
	came := make(map[string]Answer)
	if !c.Request.Params.Has(mcp.FieldRequestState) {
		return came, nil
	}
	box, err := c.mux.seals()
	if err != nil {
		return nil, err
	}
	text, _ := c.Request.Params.Text(mcp.FieldRequestState)
	plain, err := box.Open(statePurpose, text, c.Request.Principal, c.Request.Method, c.digest())
	if err != nil || len(plain) < 8 || time.Now().Unix() > int64(binary.BigEndian.Uint64(plain)) {
		return nil, invalid("requestState is unknown or expired, or it belongs to another request")
	}
	values := make(map[string]jsontext.Value)
	if err := json.Unmarshal(plain[8:], &values); err != nil {
		return nil, err
	}
	for key, value := range values {
		came[key] = Answer(value)
	}
	return came, nil
}

// digest identifies a request and its retries, apart from the method: it hashes the
// parameters without those that differ between them. The client may format them anew.
func (c *Call) digest() string {
	var e mcp.Edit
	for _, f := range []mcp.Field{mcp.FieldInputResponses, mcp.FieldRequestState, mcp.FieldMeta} {
		if c.Request.Params.Has(f) {
			e.Delete(f)
		}
	}
	params := jsontext.Value(e.AppendTo(nil, &c.Request.Params))
	// An object with duplicate names is not reformatted, and compared as it is.
	_ = params.Format(jsontext.ReorderRawObjects(true), jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
	sum := sha256.Sum256(params)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
