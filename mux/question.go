// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/question"
	"github.com/signalbox-mcp/signalbox/mcp"
)

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
	missing, known := question.Missing(c.Request.Client.Capabilities, req)
	switch {
	case !known:
		return mcp.Errorf(mcp.CodeInternalError, "a client cannot be asked for %s", q.Method)
	case missing != "":
		return question.Undeclared(q.Method, missing)
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
	all, err := c.startAll(ctx, questions)
	answers := make(map[string]Answer, len(all))
	for _, a := range all { // each of them, as Start requires
		if err != nil {
			cancel()
		}
		res, failed := a.wait()
		switch {
		case err != nil: // the first error counts
		case failed != nil:
			err = failed
		default:
			answers[a.key] = Answer(res.Bytes())
		}
	}
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// startedQuestion is a question that was sent, and the function that waits for its
// answer.
type startedQuestion struct {
	key  string
	wait func() (*mcp.Result, error)
}

// startAll sends the questions in order until one fails, and returns those that were
// sent.
func (c *Call) startAll(ctx context.Context, questions []Question) (all []startedQuestion, err error) {
	for _, q := range questions {
		req, err := q.request()
		if err != nil {
			return all, err
		}
		wait, err := c.Caller.Start(ctx, req)
		if err != nil {
			return all, err
		}
		all = append(all, startedQuestion{q.Key, wait})
	}
	return all, nil
}
