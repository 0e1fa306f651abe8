// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// record is a client's record of one request: what it may receive, and what it has
// received. It is guarded by world.mu, except for fields that are set before the request is
// sent.
type record struct {
	w        *world
	mark     string // in everything that belongs to the request
	client   string
	era      mcp.Era
	script   string        // what the backend does
	away     time.Duration // how long its client stays away after it has lost its response
	again    bool          // its id was in flight when it was sent
	sent     time.Time
	attempts []attempt // the gateways that it was sent to
	route    int       // a bit for each round: which of two replicas it is sent to

	conn atomic.Pointer[conn] // that it was last sent on

	id       string    // of the current attempt, as JSON
	ended    string    // the terminal: "result", "error", "refused", "none"
	over     time.Time // when it had its result
	outcome  string    // data.outcome of the error
	said     string    // the terminal as text
	code     int64     // of the error
	progress int
	logs     int

	session   string    // of a legacy client
	deleted   time.Time // when the session had ended
	cancelled time.Time // when the client gave it up
	excused   string    // why there may be no terminal
	stoppable bool      // its execution may end early, although it gets an answer
	doubled   bool      // its retry was sent twice
	strayed   bool      // it was retried at a replica where it is not parked
	silent    bool      // no response began
	brokenOff bool      // its result had begun, and ended with the connection to the backend
	hung      bool      // the client closed the connection without cancelling
	resumable bool      // the lost messages can be resumed
	rounds    int       // how often it was retried with an answer
}

// wrongLocked records a breach of the current schedule.
func (r *record) wrongLocked(format string, args ...any) {
	r.w.wrongLocked("%s (%s, %q): %s", r.mark, r.client, r.script, fmt.Sprintf(format, args...))
}

// excuse records why the request may have no answer. The first reason is kept.
func (r *record) excuse(why string) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if r.excused == "" {
		r.excused = why
	}
}

func (r *record) begin(session string) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	r.session = session
}

func (r *record) inSession() string {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	return r.session
}

func (r *record) isEnded() bool {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	return r.ended != ""
}

// giveUp records when the client has given the request up.
func (r *record) giveUp(why string) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if r.ended != "" {
		return
	}
	r.cancelled, r.excused = time.Now(), why
}

// note is a received message, as far as it is judged.
type note struct {
	Method string `json:"method"`
	Params struct {
		Token    json.RawMessage `json:"progressToken"`
		Progress int             `json:"progress"`
		Message  string          `json:"message"`
		Data     string          `json:"data"`
	} `json:"params"`
	Error *struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
		Data    struct {
			Outcome string `json:"outcome"`
			Mark    string `json:"mark"`
		} `json:"data"`
	} `json:"error"`
	Result struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		Type  string          `json:"resultType"`
		State json.RawMessage `json:"requestState"`
		Input map[string]struct {
			Method string `json:"method"`
			Params struct {
				Message string `json:"message"`
			} `json:"params"`
		} `json:"inputRequests"`
	} `json:"result"`
}

// read decodes a message.
func read(m *mcp.Message) (note, error) {
	var n note
	err := json.Unmarshal(m.Raw, &n)
	return n, err
}

// take judges a message that arrived on a response of the request. It returns the message
// if the client must act on it.
func (r *record) take(carrier string, m *mcp.Message) (note, bool) {
	n, err := read(m)
	r.w.note("%s %s < %s", r.mark, carrier, short(m.Raw))
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	switch {
	case err != nil:
		r.wrongLocked("got what is no message of ours: %v: %s", err, m.Raw)
		return n, false
	case r.ended != "":
		r.wrongLocked("got a message behind its terminal: %s", m.Raw)
		return n, false
	}
	switch m.Kind {
	case mcp.KindNotification:
		r.takeNotificationLocked(m, &n)
		return n, false
	case mcp.KindRequest:
		r.takeAskLocked(m, &n)
		return n, true
	default:
		return n, r.takeTerminalLocked(carrier, m, &n)
	}
}

func (r *record) takeNotificationLocked(m *mcp.Message, n *note) {
	switch m.Method {
	case "notifications/progress":
		if n.Params.Message != fmt.Sprintf("%s/p%d", r.mark, n.Params.Progress) {
			r.wrongLocked("got the progress of another: %s", m.Raw)
		}
		if n.Params.Progress <= r.progress {
			r.wrongLocked("progress %d after %d", n.Params.Progress, r.progress)
		}
		if string(n.Params.Token) != r.id && r.client[0] != 'o' {
			r.wrongLocked("progress with another token: %s, want %s", n.Params.Token, r.id)
		}
		r.progress = n.Params.Progress
	case "notifications/message":
		var k int
		_, err := fmt.Sscanf(n.Params.Data, r.mark+"/l%d", &k)
		if err != nil && r.isAmbiguousLocked(r.w.backend.piped) && r.isMineLocked(n.Params.Data) {
			return
		}
		if err != nil || k <= r.logs {
			r.wrongLocked("got a log message that is not its next: %s after %d", m.Raw, r.logs)
		}
		r.logs = k
	case "notifications/cancelled":
		// A question is withdrawn.
	default:
		r.wrongLocked("got what belongs to no request: %s", m.Raw)
	}
}

func (r *record) takeAskLocked(m *mcp.Message, n *note) {
	if r.era == mcp.EraModern {
		r.wrongLocked("a modern client was sent a request: %s", m.Raw)
	}
	r.checkAskedLocked(n.Params.Message)
}

// checkAskedLocked checks that a question belongs to the request.
func (r *record) checkAskedLocked(question string) {
	if strings.HasPrefix(question, r.mark+"/a") {
		return
	}
	if !r.isAmbiguousLocked(r.sentTo(func(v attempt) bool { return v.to.shakesHands() })) || !r.isMineLocked(question) {
		r.wrongLocked("was asked the question of another: %s", question)
	}
}

// takeTerminalLocked judges the end of the attempt, and reports whether another one must
// follow.
func (r *record) takeTerminalLocked(carrier string, m *mcp.Message, n *note) bool {
	if m.ID.String() != r.id && r.client[0] != 'o' {
		r.wrongLocked("got the answer to %s, not to %s, on %s: %s", m.ID, r.id, carrier, m.Raw)
		return false
	}
	if m.Kind == mcp.KindError {
		r.ended, r.outcome, r.said = "error", n.Error.Data.Outcome, n.Error.Message
		r.code = n.Error.Code
		if n.Error.Data.Mark != "" && n.Error.Data.Mark != r.mark {
			r.wrongLocked("got the error of another: %s", m.Raw)
		}
		if n.Error.Data.Mark == r.mark {
			r.outcome = "ran"
		}
		return false
	}
	if n.Result.Type == mcp.ResultInputRequired {
		for _, q := range n.Result.Input {
			r.checkAskedLocked(q.Params.Message)
		}
		if r.era == mcp.EraLegacy {
			r.wrongLocked("a legacy client was told input_required")
		}
		return true
	}
	r.ended, r.over = "result", time.Now()
	switch want := done(r.mark, r.script); {
	case len(n.Result.Content) == 0 || !strings.HasPrefix(n.Result.Content[0].Text, r.mark+"/done"):
		r.wrongLocked("got the result of another: %s", short(m.Raw))
	case n.Result.Content[0].Text != want:
		r.wrongLocked("got a result of %d bytes, want %d: %s", len(n.Result.Content[0].Text), len(want), short(m.Raw))
	}
	return false
}

// refused records that the edge has refused the request.
func (r *record) refused(status int, body []byte) {
	var n note
	_ = json.Unmarshal(body, &n) // a body that is not JSON has no outcome
	r.w.note("%s < %d %s", r.mark, status, short(body))
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	if r.ended != "" {
		r.wrongLocked("was refused behind its terminal: %d %s", status, body)
		return
	}
	r.ended, r.said = "refused", fmt.Sprintf("%d %s", status, short(body))
	if n.Error != nil {
		r.outcome = n.Error.Data.Outcome
	}
}

// short abbreviates a message for a transcript.
func short(raw []byte) string {
	const most = 300
	if len(raw) > most {
		return fmt.Sprintf("%s... (%d bytes)", raw[:most], len(raw))
	}
	return string(raw)
}
