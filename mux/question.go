// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/internal/question"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Question is something to ask a client.
type Question struct {
	// Key tells it from the others of the call.
	Key string
	// Method is elicitation/create, sampling/createMessage or roots/list.
	Method string
	// Params are an object, as the method has it.
	Params JSON
}

// With returns the question with one more parameter, which it does not have yet.
func (q Question) With(member string, value JSON) Question {
	q.Params = JSON(mcp.WithMember([]byte(q.Params), member, []byte(value)))
	return q
}

// Elicit asks the user for what the schema describes, which is one of a flat object.
// The answer has an Action, and where that is accept, a Content.
func Elicit(key, message string, schema JSON) Question {
	return Question{key, "elicitation/create", JSON(object("mode", "form", "message", message))}.With("requestedSchema", schema)
}

// Visit asks the user to go to a URL, and says nothing of what happens there.
func Visit(key, message, url string) Question {
	return Question{key, "elicitation/create", JSON(object("mode", "url", "message", message, "url", url))}
}

// Sample asks the client's model to go on with a conversation, in so many tokens at
// most. Other parameters, such as systemPrompt, are added by With. The answer has a
// Text.
func Sample(key string, maxTokens int, messages ...Message) Question {
	if messages == nil {
		messages = []Message{}
	}
	return Question{Key: key, Method: "sampling/createMessage"}.
		With("messages", MustJSON(messages)).With("maxTokens", JSON(strconv.Itoa(maxTokens)))
}

// Roots asks for the folders that the client works in, which the answer has as Roots.
func Roots(key string) Question { return Question{key, "roots/list", `{}`} }

func (q Question) request() (*mcp.Request, error) { return mcp.NewRequest(q.Method, []byte(q.Params)) }

// Answer is what came back: a JSON object.
type Answer JSON

// Decode reads the answer.
func (a Answer) Decode(into any) error { return json.Unmarshal([]byte(a), into) }

// Action is what a user has done with an elicitation: accept, decline or cancel.
func (a Answer) Action() string { return question.Action([]byte(a)) }

// Content decodes what a user has filled in into a pointer, and reports whether it is
// there: who has declined has filled in nothing.
func (a Answer) Content(into any) bool {
	var in struct {
		Content jsontext.Value `json:"content"`
	}
	return a.Action() == "accept" && a.Decode(&in) == nil && len(in.Content) > 0 && json.Unmarshal(in.Content, into) == nil
}

// Root is a folder that a client works in.
type Root struct {
	URI  string `json:"uri"`
	Name string `json:"name"`
}

// Roots returns the folders that the client has named, in its order.
func (a Answer) Roots() []Root {
	var in struct {
		Roots []Root `json:"roots"`
	}
	if a.Decode(&in) != nil {
		return nil
	}
	return in.Roots
}

// Text returns what the model has said to a Sample, as far as that is text.
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

// CanAsk reports whether the client has declared that it can answer the question.
func (c *Call) CanAsk(q Question) bool { return c.checkDeclared(q) == nil }

// checkDeclared is why a question cannot be put to the client.
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

// Ask puts a question to the client and waits for the answer where it stands. See the
// package documentation for how it differs from Input. It fails at once where the
// client cannot be asked, with an error that is for the function to return, or to do
// without.
func (c *Call) Ask(ctx context.Context, q Question) (Answer, error) {
	all, err := c.askAll(ctx, []Question{q})
	return all[q.Key], err
}

// askAll puts questions all at once, in their order. Where one fails, the others are
// taken back, and have been when it returns.
func (c *Call) askAll(ctx context.Context, questions []Question) (map[string]Answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all, err := c.startAll(ctx, questions)
	answers := make(map[string]Answer, len(all))
	for _, a := range all { // each of them, as mcp.Start has it
		if err != nil {
			cancel()
		}
		res, failed := a.wait()
		switch {
		case err != nil: // the first one counts
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

// asked is a question that was put, and what waits for its answer.
type asked struct {
	key  string
	wait func() (*mcp.Result, error)
}

// startAll puts questions until one cannot be put, and returns those that were.
func (c *Call) startAll(ctx context.Context, questions []Question) (all []asked, err error) {
	for _, q := range questions {
		req, err := q.request()
		if err != nil {
			return all, err
		}
		wait, err := mcp.Start(ctx, c.Caller, req)
		if err != nil {
			return all, err
		}
		all = append(all, asked{q.Key, wait})
	}
	return all, nil
}
