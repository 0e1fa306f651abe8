// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"flag"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/test/sim/mutant"
)

var flagBites = flag.Int("sim.bites", 0, "break the edges in each of the known ways, and want that to be found within so many schedules")

// edgeMutation is one way to break the edges: a piece of a file and its replacement.
type edgeMutation struct {
	rule     string // that is broken
	breach   string // regular expression of the breach that must be found
	file     string // relative to the root of the module
	old, new string
}

// edgeMutations are rules of the edges, each broken in a way that could happen by mistake.
// Mutations of internal/session belong to the first layer.
var edgeMutations = []edgeMutation{
	{"a modern client that closes its stream cancels (I25)", "went on for .* after it was cancelled", "server/modern.go",
		"if p.aborted && !x.Cancel(errDisconnected) && ir.parked != nil {", "if p.aborted && ir.parked != nil {"},
	{"a legacy client that disconnects does not cancel (I25)", "was stopped, and nobody had asked", "server/legacy_requests.go",
		"	s.answer(p, r, ir, sess, ir.x, c)\n	return nil\n", "	go func() { <-r.Context().Done(); ir.x.Cancel(errDisconnected) }()\n	s.answer(p, r, ir, sess, ir.x, c)\n	return nil\n"},
	{"a tools/call that may have run is not sent again (DELIVERY 5.4)", "was executed [0-9]+ times", "client/internal/call/retry.go",
		"f.Code == mcp.CodeBackendFailed && isReadOnly(req):", "f.Code == mcp.CodeBackendFailed:"},
	{"what has left may have been executed (DELIVERY 5.1)", "was executed [0-9]+ times|was executed, and the error says that it was not", "client/internal/httpconn/request_body.go",
		"	p.Sent.Store(true)\n", ""},
	{"a cancelled call is cancelled at a legacy backend (I23)", "went on for .* after it was cancelled", "client/internal/legacy/session.go",
		"{ _ = s.send(ctx, stdio.CancelNotice(call)) }", "{ _ = stdio.CancelNotice(call) }"},
	{"an answer that is lost is sent again (I37)", "the answer to .* did not arrive", "client/internal/legacy/server_requests.go",
		"const maxSendAttempts = 6", "const maxSendAttempts = 1"},
	{"a backend that is away has not said that it has no stream (I33)", "was not told of", "client/internal/legacy/stream.go",
		"	case isTransient(a.status), a.status == 0 && p.listening:\n", "	case isTransient(a.status) && !p.listening:\n"},
	{"a request of many rounds has run since its first (DELIVERY 5.1)", "was executed, and the error says that it was not", "internal/task/await.go",
		"	late.Outcome = mcp.Unknown\n", ""},
	{"a change bears the subscription that it belongs to (I8)", "listen .* brought", "server/request_caller.go",
		"	e.Set(mcp.MetaSubscriptionID, c.id.AppendTo(nil))\n", ""},
	{"a question goes on the stream of its request (I8)", "standalone stream brought", "server/request_caller.go",
		"	return c.server.startAsk(ctx, c.askSession, c.stream, req)\n", "	return c.server.startAsk(ctx, c.askSession, c.askSession.Standalone(), req)\n"},
	{"a stream is kept for a client that comes back (I13)", "was not kept for its time", "server/config.go",
		"	sl.LogKeep = l.EventRetention\n", "	sl.LogKeep = 1\n"},
	{"a call that is over lets go of its carrier (I2, I28)", "went on for .* after it was cancelled", "client/internal/legacy/http_call.go",
		"context.AfterFunc(ctx, c.cancel)\n", "context.AfterFunc(ctx, func() {})\n"},
	{"a stream that breaks was deaf for a while (I33)", "was not told of", "client/listen.go",
		"	return l.invalidate(ctx)\n", "	return nil\n"},
	{"what was agreed to once is asked for again (I33)", "was not told of", "client/listen.go",
		"	time.AfterFunc(wait, l.cut)", "	_ = wait"},
	{"a served stream listens again (I33)", "was not told of", "server/legacy_listen.go",
		"		return f.Code != mcp.CodeUnsupported\n", "		return f.Code == mcp.CodeUnsupported\n"},
	{"a session is its principal's (I18, I22)", "in what is another's", "internal/session/table.go",
		"	case e.session.Principal != principal || e.session.Profile != profile:\n", "	case false:\n"},
	{"DELETE ends what runs in the session (I20)", "after its session was deleted", "server/legacy_requests.go",
		"	s.end(sess, nil)\n	p.w.WriteHeader(http.StatusNoContent)\n", "	_ = sess\n	p.w.WriteHeader(http.StatusNoContent)\n"},
	{"a request that is parked elsewhere is not begun here (I22)", "a state of the other replica was not unknown|has its result from the other", "server/modern.go",
		"		return s.modernRetry(p, r, m, &opened)\n",
		"		no := s.modernRetry(p, r, m, &opened)\n		if no == nil || no.err.Code != mcp.CodeInvalidParams || !s.quota.acquire(key) {\n			return no\n		}\n" +
			"		opened, _ = restartRequest(opened.req, nil)\n"},
	{"ids of sessions are made here and nowhere else (I18)", "in what lives elsewhere", "server/legacy_requests.go",
		"	sess, err := s.sessions.Get(ids[0], from.principal, from.profile, time.Now())\n",
		"	sess, err := s.sessions.Get(ids[0], from.principal, from.profile, time.Now())\n	if err == session.ErrUnknown {\n" +
			"		sess = session.New(ids[0], from.principal, &mcp.Peer{Version: mcp.LatestLegacy}, &s.rules)\n" +
			"		sess.Scope = mcp.NewScope(scopeKey(sess.ID), s.standalone(sess))\n		err = s.addSession(sess)\n	}\n"},
	{"a line is written once (I44)", "progress [0-9]+ after|a log message that is not its next", "server/line_writer.go",
		"frame.AppendLine(w.buf[:0], m.Head, m.Body, m.Tail)", "frame.AppendLine(w.buf, m.Head, m.Body, m.Tail)"},
	{"all that waits is written (I1)", "got no answer", "server/line_writer.go",
		"		for i := range batch {\n", "		for i := range min(2, len(batch)) {\n"},
	{"a message that names no request on a pipe goes to no request (I8)", "a log message that is not its next", "client/internal/modern/log_routing.go",
		"		case !first.isSameClient(c):\n			return mcp.ID{}\n", ""},
	{"an answer that broke off takes its connection with it (DELIVERY 5.1)", "got what is no message", "server/http_response.go",
		"	if p.aborted {\n		panic(", "	if false {\n		panic("},
	{"half a result is not ended like a whole one (DELIVERY 5.1)", "got what is no message|looks whole", "server/http_result_stream.go",
		"	case f != nil && f.Err() == nil && m.Rest:\n		p.write(m.Head)\n",
		"	case f != nil:\n		p.write(closingMessage().Head)\n"},
	{"the caller of a result that broke off gets an error (DELIVERY 5.1)", "got no answer", "server/http_result_stream.go",
		"	if err := src.result.Flow(src); err != nil {\n		return err\n", "	if err := src.result.Flow(src); err != nil {\n		<-f.Gone()\n		return err\n"},
	{"a result that flows is not cut for nothing (DELIVERY 5.1)", "its answer broke off, and", "server/http_result_stream.go",
		"	src.pad(p)\n	return nil\n", "	if src.left > 0 {\n		return errIncomplete\n	}\n	return nil\n"},
	{"a request that was read is not made again (DELIVERY 5.4)", "was executed [0-9]+ times", "internal/http1/exchange.go",
		"	resp, err := x.receive(req)\n	if err != nil {\n		return nil, x.fail(err)\n",
		"	resp, err := x.receive(req)\n	if err != nil {\n		return nil, errors.Join(ErrUnsent, x.fail(err))\n"},
	{"what is not taken at once of a request is written later (I1)", "got no answer|a call has no result", "internal/http1/send.go",
		"	if err == nil && n < buf.Len() {\n", "	if err == nil && n < 0 {\n"},
	{"all of a large request is written (I1)", "a call has no result", "internal/http1/conn.go",
		"	n, err := c.Conn.Write(p)\n", "	n, err := c.Conn.Write(p[:min(len(p), pieceSize-1)])\n	n = len(p)\n"},
	{"a session's stream outlasts refusals that pass (I33)", "was not told of|is promised to be told of", "client/internal/legacy/stream.go",
		"		case a.hasNoStream():\n			w.logNoListen(", "		case a.hasNoStream() || a.status/100 == 4 && a.status != http.StatusTooManyRequests:\n			w.logNoListen("},
	{"a call's stream outlasts refusals that pass (I13)", "its result was lost", "client/internal/legacy/stream.go",
		"		case a.hasNoStream():\n			w.giveUp(", "		case a.hasNoStream() || a.status/100 == 4 && a.status != http.StatusTooManyRequests:\n			w.giveUp("},
	{"refusals with 408, 409 and 425 may pass (I33)", "was not told of|is promised to be told of|its result was lost", "client/internal/legacy/stream.go",
		"	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:\n", "	case http.StatusTooManyRequests:\n"},
	{"refusals with 5xx may pass (I33)", "was not told of|is promised to be told of|its result was lost", "client/internal/legacy/stream.go",
		"		return status >= 500\n", "		return false\n"},
	{"empty polls are no refusals: a retry holds until the next (I15)", "was not told of|is promised to be told of|its result was lost", "client/internal/legacy/stream.go",
		"asked := a.after.IDs > a.before.IDs, a.after.Retry >= 0", "asked := a.after.IDs > a.before.IDs, a.after.Retry >= 0 && a.before.Retry < 0"},
	{"what changed while a stream was refused is told (I33)", "was not told of", "client/internal/legacy/stream.go",
		"		if gap || !hadStream &&", "		if !hadStream &&"},
	{"a server that refuses everything is probed again (I39)", rolledBack, "client/internal/modern/http.go",
		"		w.Recheck(req)\n", ""},
	{"a refusal may be a JSON-RPC error of any code (I39)", rolledBack, "client/internal/modern/http.go",
		"	case !isFault:\n		return true\n", "	case !isFault:\n		return false\n"},
	{"a refusal may be text with any status (I39)", rolledBack, "client/internal/modern/http.go",
		"		return !r.IsBeforeMessage()\n", "		return r == nil\n"},
	{"a refusal may be a stream without a message (I39)", rolledBack, "client/internal/modern/http.go",
		"	return f.Code == mcp.CodeBackendFailed\n", "	return false\n"},
	{"a refusal that no modern server gives is enough (I39)", rolledBack + " 0s", "client/internal/modern/http.go",
		"	case r.Status == http.StatusBadRequest && !isModernError(r.RPC),\n		(r.Status == http.StatusNotFound || r.Status == http.StatusMethodNotAllowed) && r.RPC == nil:\n",
		"	case r.Status == 0:\n"},
	{"a listen is begun again after a refusal of the backend's own (I39)", "was not told of", "server/legacy_listen.go",
		"	return !ok || e.Code != mcp.CodeMethodNotFound && e.Code != mcp.CodeInternalError\n", "	return !ok || e == nil\n"},
	{"a process does not rest during a call, legacy", restedBusy, "client/internal/legacy/rest.go",
		"!s.isNeeded() && s.calls.CloseIdle(err, idle) {", "!s.isNeeded() && (s.calls.CloseIdle(err, idle) || true) {"},
	{"a process does not rest during a call, modern", restedBusy, "client/rest.go",
		"	if c.cur != ap || c.serving > 0 || c.used.Load() > since.UnixNano() || c.input.any() || c.rechecking || c.draining {\n		return false\n	}\n	c.cur, ap.retired = nil, true\n	return ap.users == 0\n",
		"	if c.cur != ap || c.used.Load() > since.UnixNano() || c.input.any() || c.rechecking || c.draining {\n		return false\n	}\n	c.cur, ap.retired = nil, true\n	return true\n"},
	{"a process does not rest during a subscription", restedBusy, "client/internal/legacy/rest.go",
		"s.keepsState() || !s.feed.IsEmpty() || !s.requests.isEmpty()", "s.keepsState() || !s.requests.isEmpty()"},
	{"a process that nothing needs ends", "processes run, and nothing needs them", "internal/backend/rest.go",
		"				u.Processes.Rest(now.Add(-u.Idle))\n", "				_ = now\n"},
	{"lists are compared after a rest", "after a call, and the backend has", "internal/backend/rest.go",
		"!now.Lists.Equal(&shown) || ", "false && !now.Lists.Equal(&shown) || "},
}

// restedBusy is the breach if a process ends that is needed.
const restedBusy = "a process was ended that served|was stopped, and nobody had asked|failed, and nothing was broken"

// rolledBack is the breach if a gateway does not notice that its backend has changed its
// era.
const rolledBack = "the backend was rolled back, and a call has no result after"

// TestBitesApply keeps the list of mutations up to date with the code.
func TestBitesApply(t *testing.T) {
	for _, b := range edgeMutations {
		if _, err := b.change().Text(); err != nil {
			t.Errorf("%s: %v", b.rule, err)
		}
	}
}

func (b *edgeMutation) change() mutant.Change {
	return mutant.Change{File: filepath.Join(root, b.file), Old: b.old, New: b.new}
}

// root is the directory of the module.
const root = "../../.."

// TestBites breaks each rule in turn, in an overlay for the compiler, and requires
// the simulator to find that. Each takes a build, so it runs only if -sim.bites is set.
func TestBites(t *testing.T) {
	if *flagBites == 0 {
		return
	}
	for _, b := range edgeMutations {
		t.Run(strings.ReplaceAll(b.rule, " ", "_"), func(t *testing.T) {
			began := time.Now()
			out, err := mutant.Schedules(t.Context(), t.TempDir(), b.change(), b.breach, *flagBites)
			found := regexp.MustCompile(`seed (\d+): (.*(?:` + b.breach + `).*)`).FindStringSubmatch(out)
			if err == nil || found == nil {
				t.Errorf("was not found by its rule in %d schedules: %v\n%s", *flagBites, err, last(out, 2000))
				return
			}
			seed, err := strconv.Atoi(found[1])
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("found by schedule %d, after %v: %s", seed, time.Since(began).Round(time.Second), found[2])
		})
	}
}

func last(text string, n int) string { return text[max(0, len(text)-n):] }
