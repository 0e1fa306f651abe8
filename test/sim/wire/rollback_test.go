// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// manner is how a legacy server refuses a request of the modern era.
type manner struct {
	status int
	code   int    // of a JSON-RPC error, or 0 for text
	text   string // "" is a stream without a message
	hasID  bool   // the error has the id of the request

	isPlain bool // no modern server answers this
}

// manners are those of servers in use. The first is that of ours.
var manners = []manner{
	{400, 0, "Bad Request: Unsupported protocol version", false, true},
	{400, -32000, "Bad Request: Server not initialized", false, true},
	{400, -32600, "Bad Request: Missing session ID", false, true},
	{404, 0, "not found", false, true},
	{404, -32001, "Session not found", true, false},
	{404, -32001, "Session not found", false, false},
	{422, 0, "expect initialize request", false, false},
	{200, -32602, "Invalid request parameters", true, false},
	{200, -32602, "Invalid request parameters", false, false},
	{200, -32600, `method "tools/call" is invalid during session initialization`, true, false},
	{200, 0, "", false, false},
}

func (how *manner) String() string { return fmt.Sprintf("%d %d %q", how.status, how.code, how.text) }

func (how *manner) refuse(w http.ResponseWriter, r *http.Request) {
	var req struct {
		ID json.RawMessage `json:"id"`
	}
	body, _ := io.ReadAll(r.Body)
	if json.Unmarshal(body, &req) != nil || req.ID == nil || !how.hasID {
		req.ID = json.RawMessage("null")
	}
	switch {
	case how.code != 0:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(how.status)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, req.ID, how.code, how.text)
	case how.text != "":
		http.Error(w, how.text, how.status)
	default:
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(how.status)
	}
}

// canRollBack reports whether the backend may become a legacy one. A gateway with a
// configured revision does not probe.
func (w *world) canRollBack() bool {
	return !w.backend.legacy && !w.backend.piped && w.gateways[0].version == ""
}

// rollBack restarts the backend as a server of the legacy era.
func (w *world) rollBack() {
	b := w.backend
	b.how = &manners[w.choose.Intn(len(manners))]
	w.countAction("rollback")
	w.note("the backend is rolled back to the legacy era, and refuses with %s", b.how)
	b.crash()
	b.legacy, b.isRolledBack = true, true
	b.start()
}

// foundOut limits how long a gateway takes to notice that its backend has changed its era:
// it takes three refusals over ten seconds.
const foundOut = 15 * time.Second

// relisted limits how long a gateway takes from there to the new lists.
const relisted = 15 * time.Second

// checkRollback checks that each gateway serves the backend that was rolled back.
func (w *world) checkRollback() {
	if !w.backend.isRolledBack {
		return
	}
	w.note("---- the backend is a legacy one")
	c := newRaw(w, "late", w.tokenOf(0))
	defer c.close()
	most := foundOut
	if w.backend.how.isPlain {
		most = 0
	}
	for _, g := range w.gateways {
		call := func(mark string) string {
			return fmt.Sprintf(`{"name":%q,"arguments":{"mark":%q,"do":""},"_meta":{%s}}`, w.tool, mark, modernMeta)
		}
		if said, ok := c.until(g, most, "tools/call", w.tool, call, "/done"); !ok {
			w.wrong("%s: the backend was rolled back, and a call has no result after %v: %s", g.host, most, said)
		}
		list := func(string) string { return fmt.Sprintf(`{"_meta":{%s}}`, modernMeta) }
		if said, ok := c.until(g, relisted, "tools/list", "", list, fmt.Sprintf("life %d", w.backend.life)); !ok {
			w.wrong("%s: the backend was rolled back, and its list is not its own after %v: %s", g.host, relisted, said)
		}
	}
}

// until repeats a request until its answer contains wanted, and reports whether that
// happened in time.
func (c *raw) until(g *gateway, most time.Duration, method, name string, params func(mark string) string, wanted string) (said string, ok bool) {
	for end := time.Now().Add(most); ; c.w.sleep(time.Second) {
		c.n++
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.n, method, params(fmt.Sprintf("%s.%d", c.name, c.n)))
		said, ok = c.once(g, body, modernHeaders(method, name), wanted)
		c.w.note("%s > %s < %s", c.name, body, short([]byte(said)))
		if ok || !time.Now().Before(end) {
			return said, ok
		}
	}
}

func (c *raw) once(g *gateway, body string, h http.Header, wanted string) (said string, ok bool) {
	res, err := c.send(c.w.ctx, g, nil, http.MethodPost, body, h)
	if err != nil {
		return err.Error(), false
	}
	defer res.Body.Close()
	all, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error(), false
	}
	return string(all), bytes.Contains(all, []byte(wanted))
}
