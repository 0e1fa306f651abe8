// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"maps"
	"strconv"
	"strings"
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
	received map[string]jsontext.Value
	used     map[string]jsontext.Value
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
		if !question.IsAnswer(q.Method, a) {
			return nil, invalid("params.inputResponses.%s is not a valid answer to %s", q.Key, q.Method)
		}
		answers[q.Key], g.used[q.Key] = Answer(a), a
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
		maps.Copy(came, fresh)
	}
	return &receivedAnswers{received: came, used: make(map[string]jsontext.Value)}, nil
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
	answers, err := c.received.encodeUsed()
	if err != nil {
		return "", err
	}
	plain := binary.BigEndian.AppendUint64(nil, uint64(time.Now().Add(stateLife).Unix()))
	return box.Seal(statePurpose, append(plain, answers...), c.Request.Principal, c.Request.Method, c.digest()), nil
}

// encodeUsed encodes the answers that the function has used.
func (g *receivedAnswers) encodeUsed() ([]byte, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return json.Marshal(g.used, json.Deterministic(true))
}

// openState returns the answers of earlier rounds. The state comes from the client and
// is not trusted: it opens only for the principal and the request that it was made for,
// until it expires (2026-07-28, basic/patterns/mrtr, "Server Requirements").
func (c *Call) openState() (map[string]jsontext.Value, error) {
	came := make(map[string]jsontext.Value)
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
	err = json.Unmarshal(plain[8:], &came)
	return came, err
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

// A Question is a request to a client.
type Question struct {
	// Key identifies the question among those of the call.
	Key string
	// Method is elicitation/create, sampling/createMessage or roots/list.
	Method string
	// Params is an object, in the form of the method.
	Params JSON
}

// With returns the question with one more parameter. The question must not have it yet.
func (q Question) With(member string, value JSON) Question {
	q.Params = JSON(jsonscan.WithMember([]byte(q.Params), member, []byte(value)))
	return q
}

// Elicit returns a question that asks the user to fill in a form. The schema is that of
// a flat object. The answer has an Action and, if that is accept, a Content.
func Elicit(key, message string, schema JSON) Question {
	return Question{key, "elicitation/create", JSON(object("mode", "form", "message", message))}.With("requestedSchema", schema)
}

// Visit returns a question that asks the user to open a URL. The answer has no result
// of the visit.
func Visit(key, message, url string) Question {
	return Question{key, "elicitation/create", JSON(object("mode", "url", "message", message, "url", url))}
}

// Sample returns a question that asks the client's model to continue a conversation,
// with at most maxTokens tokens. Use With for other parameters, such as systemPrompt.
// The answer has a Text.
func Sample(key string, maxTokens int, messages ...Message) Question {
	if messages == nil {
		messages = []Message{}
	}
	return Question{Key: key, Method: "sampling/createMessage"}.
		With("messages", MustJSON(messages)).With("maxTokens", JSON(strconv.Itoa(maxTokens)))
}

// Roots returns a question for the directories that the client works in. The answer has
// them as Roots.
func Roots(key string) Question { return Question{key, "roots/list", `{}`} }

func (q Question) request() (*mcp.Request, error) { return mcp.NewRequest(q.Method, []byte(q.Params)) }

// An Answer is the client's answer to a Question: a JSON object.
type Answer JSON

// Decode decodes the answer.
func (a Answer) Decode(into any) error { return json.Unmarshal([]byte(a), into) }

// Action returns the user's action in an elicitation: accept, decline or cancel.
func (a Answer) Action() string { return question.Action([]byte(a)) }

// Content decodes the user's input into a pointer, and reports whether there is any:
// there is no input if the user declined or cancelled.
func (a Answer) Content(into any) bool {
	var in struct {
		Content jsontext.Value `json:"content"`
	}
	return a.Action() == "accept" && a.Decode(&in) == nil && len(in.Content) > 0 && json.Unmarshal(in.Content, into) == nil
}

// A Root is a directory that a client works in.
type Root struct {
	URI  string `json:"uri"`
	Name string `json:"name"`
}

// Roots returns the directories in the client's order.
func (a Answer) Roots() []Root {
	var in struct {
		Roots []Root `json:"roots"`
	}
	if a.Decode(&in) != nil {
		return nil
	}
	return in.Roots
}

// Text returns the text of the model's answer to a Sample.
func (a Answer) Text() string {
	var one struct {
		Content struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if a.Decode(&one) == nil {
		return one.Content.Text
	}
	var several struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	}
	if a.Decode(&several) != nil {
		return ""
	}
	var text strings.Builder
	for _, block := range several.Content {
		text.WriteString(block.Text)
	}
	return text.String()
}

// CanAsk reports whether the client has declared the capability for the question.
func (c *Call) CanAsk(q Question) bool { return c.checkDeclared(q) == nil }

// checkDeclared returns an error if the question cannot be sent to the client.
func (c *Call) checkDeclared(q Question) error {
	req, err := q.request()
	if err != nil {
		return err
	}
	return checkDeclared(c.Request.Client, req)
}

func checkDeclared(client *mcp.Peer, req *mcp.Request) error {
	switch missing, known := question.Missing(client.Capabilities, req); {
	case !known:
		return mcp.Errorf(mcp.CodeInternalError, "a client cannot be asked for %s", req.Method)
	case missing != "":
		return question.Undeclared(req.Method, missing)
	default:
		return nil
	}
}

// Ask asks the client a question and waits for the answer. See the package
// documentation for the difference from Input. It fails at once if the client cannot be
// asked; the function may return the error or continue without an answer.
func (c *Call) Ask(ctx context.Context, q Question) (Answer, error) {
	all, err := c.askAll(ctx, []Question{q})
	return all[q.Key], err
}

// askAll asks all questions at once, in order. If one fails, the others have been
// cancelled when it returns.
func (c *Call) askAll(ctx context.Context, questions []Question) (map[string]Answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var failed error // the first error
	var waits []func() (*mcp.Result, error)
	for _, q := range questions {
		req, err := q.request()
		var wait func() (*mcp.Result, error)
		if err == nil {
			wait, err = c.Caller.Start(ctx, req)
		}
		if err != nil {
			failed = err
			break
		}
		waits = append(waits, wait)
	}
	answers := make(map[string]Answer, len(waits))
	for i, q := range questions[:len(waits)] { // each of them, as Start requires
		if failed != nil {
			cancel()
		}
		res, err := waits[i]()
		switch {
		case failed != nil: // the first error counts
		case err != nil:
			failed = err
		default:
			answers[q.Key] = Answer(res.Bytes())
		}
	}
	if failed != nil {
		return nil, failed
	}
	return answers, nil
}
