// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/bound"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/clients"
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/metrics"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// resultURI begins the URIs of results that were cut. An id follows, and perhaps an offset and a length.
const resultURI = "signalbox://results/"

// resultPurpose is the purpose that the ids of results are sealed for.
const resultPurpose = "result id"

// keptResults are the results that were cut, as a whole. Its methods may be called concurrently.
type keptResults struct {
	salt [sha256.Size]byte // for the keys of results of tasks

	mu     sync.Mutex
	store  bound.Store[*keptResult]
	timer  *time.Timer // nil if nothing is kept
	cut    uint64
	closed bool
}

// keptResult is a result that was cut.
type keptResult struct {
	content *bound.Content
	origin  resultOrigin
	mark    string // the server, if its texts are marked
}

// resultOrigin is the call that a result is of.
type resultOrigin struct {
	server    string
	tool      string // as its client calls it, or "" for a task of a tool that is not known
	arguments []byte
	task      string // the id that its client knows, or ""
	call      mcp.CallID
}

func newKeptResults() *keptResults {
	k := new(keptResults)
	_, _ = rand.Read(k.salt[:]) // never fails: crypto/rand crashes the program instead
	return k
}

// useResults puts the limits of a configuration in force.
func (g *Gateway) useResults(next *config.Config) {
	k := g.results
	k.mu.Lock()
	defer k.mu.Unlock()
	k.store.Limit(next.Results.Keep, next.Results.Total)
}

// dropResults drops what is kept if another configuration cuts nothing, or has other filters: what filters
// have passed before is not what they would pass now. It is called when that is in use; see put.
func (g *Gateway) dropResults(old, next *config.Config) {
	if next.CutsResults() && reflect.DeepEqual(old.Filters, next.Filters) {
		return
	}
	k := g.results
	k.mu.Lock()
	defer k.mu.Unlock()
	k.store.Clear()
}

// put keeps a result of an owner, and returns its key. It reports false if there is no room for it, or
// isCurrent reports false: the filters that have passed it are no longer in use.
func (k *keptResults) put(r *keptResult, principal, owner string, isCurrent func() bool) (key bound.StoreKey, ok bool) {
	if r.origin.task != "" { // a client may ask for it again and again
		sum := sha256.Sum256(append(k.salt[:], owner+"\x00"+r.origin.task...))
		copy(key[:], sum[:])
	} else {
		_, _ = rand.Read(key[:]) // never fails, as above
	}
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.cut++
	size := r.content.Bytes() + int64(len(r.origin.arguments))
	if k.closed || !isCurrent() || !k.store.Put(now, key, principal, size, r) {
		return key, false
	}
	k.schedule(now)
	return key, true
}

func (k *keptResults) get(key bound.StoreKey) (*keptResult, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.store.Get(time.Now(), key)
}

// schedule lets a timer drop what has been kept for its time. It is called with the lock.
func (k *keptResults) schedule(now time.Time) {
	if next, ok := k.store.Expire(now); ok && k.timer == nil && !k.closed {
		k.timer = time.AfterFunc(next, k.expire)
	}
}

func (k *keptResults) expire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer = nil
	k.schedule(time.Now())
}

// close drops everything, and keeps nothing from then on.
func (k *keptResults) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.store.Clear()
	if k.timer != nil {
		k.timer.Stop()
	}
}

// ResultsStatus is what is kept of large results, and how many were cut since the start.
type ResultsStatus struct {
	Kept    int    `json:"kept"`
	Bytes   int64  `json:"bytes"`
	Cut     uint64 `json:"cut"`
	Whole   int    `json:"whole,omitempty"` // tools with results that are not cut, because of their output schemas
	Evicted uint64 `json:"evicted"`         // dropped before "results.keep", for lack of room
}

func (k *keptResults) status() ResultsStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.store.State()
	return ResultsStatus{Kept: s.Values, Bytes: s.Bytes, Cut: k.cut, Evicted: s.Evicted}
}

// instruments returns the metrics of large results.
func (k *keptResults) instruments() []metrics.Instrument {
	instrument := func(name, help string, isCounter bool, of func(ResultsStatus) int64) metrics.Instrument {
		return metrics.Instrument{Name: "results_" + name, Help: help, Counter: isCounter, Read: func() []metrics.Value { return metrics.One(of(k.status())) }}
	}
	return []metrics.Instrument{
		instrument("cut", "Results of tools that were cut because of their size.", true, func(s ResultsStatus) int64 { return toInt64(s.Cut) }),
		instrument("evicted", "Results that were cut and dropped before their time, for lack of room.", true, func(s ResultsStatus) int64 { return toInt64(s.Evicted) }),
		instrument("retained_bytes", "Size of the results that were cut, which are kept to be read in pieces, in bytes.", false, func(s ResultsStatus) int64 { return s.Bytes }),
	}
}

// resultCut cuts the results of one call, or of one task.
type resultCut struct {
	g      *Gateway
	req    *mcp.Request
	v      *view // of the sender
	most   int64
	origin resultOrigin

	asError   bool // results of tools with an output schema are replaced by an error
	hasSchema bool // the tool has an output schema
	isTask    bool
	isMarked  bool // a filter marks the results
}

// cutOf returns how results of a tool are cut for the sender of a request, or nil if they are not.
func (g *Gateway) cutOf(req *mcp.Request, v *view, id mcp.CallID, tool string, arguments []byte) *resultCut {
	e, ok := v.catalog.Tool(tool)
	if !ok || e.IsOwn() {
		return nil
	}
	// The definition of call_tool, with which a client may have called it, has no output schema.
	called, _ := req.Params.Text(mcp.FieldName)
	c := &resultCut{g: g, req: req, v: v, hasSchema: called == tool && hasOutputSchema(e.JSON()), origin: resultOrigin{server: e.BackendName, tool: tool, arguments: arguments, call: id}}
	c.isMarked = v.filters != nil && v.filters.Results(targetOf(e)).Marks()
	return c.orNil()
}

// taskCut is cutOf for the result of a task of a client.
func (g *Gateway) taskCut(req *mcp.Request, b *activeBackend, name string) *resultCut {
	if !g.view.Load().cuts {
		return nil
	}
	c := &resultCut{g: g, req: req, v: g.viewFor(viewerOf(req)), isTask: true, origin: resultOrigin{server: b.Name(), task: name}}
	if own, ok := g.taskRegistry.toolOf(ownerOf(req), name); ok {
		if e, ok := toolAt(c.v.catalog, b.Name(), own); ok {
			c.origin.tool, c.hasSchema = e.Name, hasOutputSchema(e.JSON())
		}
	}
	filter := g.taskFilter(req, b, name)
	c.isMarked = filter != nil && filter.Marks()
	return c.orNil()
}

// orNil returns the resultCut, or nil if it would cut nothing.
func (c *resultCut) orNil() *resultCut {
	c.asError = c.v.cfg.Results.Structured == config.StructuredError
	if c.most = c.v.maxResult(c.origin.server, c.req.Client); c.most == 0 || c.hasSchema && !c.asError {
		return nil
	}
	return c
}

// maxResult returns the size of the content of a result of a server for a client, or 0 without a limit.
func (v *view) maxResult(server string, client *mcp.Peer) int64 {
	id := ""
	if client != nil && len(v.cfg.Results.Clients) > 0 {
		known, _ := clients.SearcherNamed(infoMember(client.Info, "name"))
		id = known.ID
	}
	return v.cfg.MaxResult(server, id)
}

// wholeTools returns how many tools that are offered have an output schema, and so results that are not cut
// although there is a limit for them.
func (v *view) wholeTools() (n int) {
	if !v.cuts || v.cfg.Results.Structured == config.StructuredError {
		return 0
	}
	for e := range v.catalog.Entries(catalog.Tools) {
		if !e.IsOwn() && v.cfg.CutsResultsOf(e.BackendName) && hasOutputSchema(e.JSON()) {
			n++
		}
	}
	return n
}

// results explains what becomes of large results of a tool.
func (x *explainer) results(it *ExplainedItem, d *catalog.Decision) {
	e := d.Tool()
	if e == nil || e.IsOwn() || !x.v.cfg.CutsResultsOf(e.BackendName) {
		return
	}
	at := x.places.Setting("", "results")
	most := "the limit of a client"
	if n := x.v.cfg.MaxResult(e.BackendName, ""); n > 0 {
		most = sizeText(n)
	}
	switch {
	case e.IsUntyped:
		it.step(at, "listed without its output schema, so that results over %s can be cut", most)
	case !hasOutputSchema(e.JSON()):
		it.step(at, "results over %s are cut", most)
	case x.v.cfg.Results.Structured == config.StructuredError:
		it.step(at, "results over %s are an error, because it has an output schema (results.structured)", most)
	default:
		it.step(at, "its results are not cut, because it has an output schema (results.structured)")
	}
}

func hasOutputSchema(tool []byte) bool {
	for name, value := range jsonscan.Members(tool) {
		if name == "outputSchema" {
			return !isNull(value)
		}
	}
	return false
}

// apply returns a result that is not too large.
func (c *resultCut) apply(res *mcp.Result) (*mcp.Result, error) {
	if res == nil || res.Delivered || int64(len(res.Bytes())) <= c.most {
		return res, nil
	}
	return withBytes(res, c.cut(res.Bytes(), c.isTask))
}

// cut returns a result of a tool, or a task with one, that is not too large.
func (c *resultCut) cut(raw []byte, mayBeTask bool) []byte {
	hasSchema, isTask := c.hasSchema, false
	for name, value := range jsonscan.Members(raw) {
		switch name {
		case "structuredContent":
			hasSchema = hasSchema || c.origin.tool == "" && !c.v.cfg.ListsUntyped(c.origin.server) // it may have
		case "result":
			isTask = mayBeTask && value[0] == '{'
		}
	}
	switch {
	case isTask:
		return jsonscan.RewriteMembers(raw, func(name string, value []byte) []byte {
			if name == "result" && value[0] == '{' {
				return c.cut(value, false)
			}
			return value
		})
	case hasSchema && !c.asError:
		return raw
	}
	id := ""
	b := bound.Cut{
		Most: c.most, AsError: hasSchema, Marked: c.isMarked,
		Keep: func(content *bound.Content) string {
			if id = c.keep(content); id == "" {
				return ""
			}
			return resultURI + id
		},
		Note: func(from int64, of *bound.Content) string { return c.note(id, from, of.Size(), hasSchema) },
	}
	return b.Apply(raw)
}

// keep keeps a result, and returns its id, or "" if there is no room for it.
func (c *resultCut) keep(content *bound.Content) string {
	r := &keptResult{content: content, origin: c.origin}
	if c.isMarked {
		r.mark = c.origin.server
	}
	r.origin.arguments, r.origin.tool = append([]byte(nil), r.origin.arguments...), strings.Clone(r.origin.tool)
	key, ok := c.g.results.put(r, c.req.Principal, c.req.Owner(), c.isCurrent)
	if !ok {
		return ""
	}
	return c.g.taskIDs.box.Seal(resultPurpose, key[:], c.req.Owner())
}

// isCurrent reports whether the filters that a result has passed are in use.
func (c *resultCut) isCurrent() bool { return c.g.view.Load().filters == c.v.filters }

// note returns the text at the end of a result that was cut at an offset.
func (c *resultCut) note(id string, from, size int64, isError bool) string {
	what := fmt.Sprintf("This is %s of %s.", sizeText(from), sizeText(size))
	if isError {
		what = fmt.Sprintf("The result has %s, and one may have %s.", sizeText(size), sizeText(c.most))
	}
	switch {
	case id == "" && !c.isCurrent():
		return "[" + what + " The rest is not kept, because the filters have changed: call the tool again.]"
	case id == "":
		return "[" + what + " The rest is too large to be kept (results.total).]"
	case from == size:
		return "[What is not text is linked, because the result is large.]"
	}
	return "[" + what + " " + restOf(c.v, id, from) + "]"
}

// restOf returns the sentence about how to read the rest of a result.
func restOf(v *view, id string, from int64) string {
	how := "read the link that follows"
	if e, ok := v.catalog.Tool(catalog.ReadResult); ok && e.IsOwn() {
		how = fmt.Sprintf(`call %s with id "%s" and offset %d`, catalog.ReadResult, id, from)
	}
	if v.cfg.Results.Keep < 0 {
		return fmt.Sprintf("For the rest %s.", how)
	}
	return fmt.Sprintf("For the rest %s, within %s.", how, shortDuration(v.cfg.Results.Keep))
}

// sizeText returns a size for people.
func sizeText(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d MiB", n>>20)
	}
}

// notice returns a notification of a task with a result that is not too large.
func (c *resultCut) notice(n *mcp.Notification) *mcp.Notification {
	if int64(len(n.Params.Bytes())) <= c.most {
		return n
	}
	return withParams(n, c.cut(n.Params.Bytes(), true))
}

// The reasons why a result cannot be read.
const (
	unknownResult = "there is no result with this id: copy the id from the end of the result that was cut"
	resultIsGone  = "the result is no longer kept (results.keep, results.total): call its tool again"
)

// openResult returns the result with an id of the sender of a request. It reports false for an
// id of another sender or profile, for one that is not an id, and for a result of a tool that the sender may no
// longer call. A nil result is one that is not kept any more.
func (g *Gateway) openResult(req *mcp.Request, id string) (r *keptResult, ok bool) {
	plain, err := g.taskIDs.box.Open(resultPurpose, id, req.Owner())
	if err != nil || len(plain) != len(bound.StoreKey{}) {
		return nil, false
	}
	r, ok = g.results.get(bound.StoreKey(plain))
	if !ok {
		return nil, true
	}
	return r, g.mayReadResult(req, &r.origin)
}

// mayReadResult reports whether the sender of a request may make the call that a result is of. It is
// judged at each read, because the policy or the rights of the sender may have changed.
func (g *Gateway) mayReadResult(req *mcp.Request, o *resultOrigin) bool {
	v := g.viewFor(viewerOf(req))
	if o.tool == "" {
		_, ok := v.backend(o.server)
		return ok && (v.class == nil || v.class.backends[o.server])
	}
	f := lookup{kind: catalog.Tools, name: o.tool}.find(v)
	if f.entry == nil || f.entry.BackendName != o.server {
		return false
	}
	if v.policy == nil || v.policy.dryRun || o.task != "" {
		return true
	}
	params := []byte("{}")
	if len(o.arguments) > 0 {
		params = append(append([]byte(`{"arguments":`), o.arguments...), '}')
	}
	call, err := mcp.NewRequest("tools/call", params)
	return err == nil && f.decide(viewerOf(req), call).Effect.IsAllowed()
}

// resultArguments are the arguments of read_result.
type resultArguments struct {
	ID     string `json:"id"`
	Offset int64  `json:"offset"`
	Length int64  `json:"length"`
}

// read reads and checks the arguments. The text is what is wrong with them, or "".
func (a *resultArguments) read(raw []byte) (wrong string) {
	a.Length = -1
	if wrong = readArguments(raw, a); wrong != "" {
		return wrong
	}
	a.ID = strings.TrimPrefix(a.ID, resultURI)
	a.ID, _, _ = strings.Cut(a.ID, "?")
	switch {
	case a.ID == "":
		return "id is missing: the id of the result, which is at the end of the part that you have"
	case a.Offset < 0:
		return "offset must not be negative"
	case a.Length == 0 || a.Length < -1:
		return "length must be at least 1"
	}
	return ""
}

// readResult serves read_result. of is the call that the result is of.
func (g *Gateway) readResult(ctx context.Context, req *mcp.Request) (of mcp.CallID, res *mcp.Result, err error) {
	failed := func(format string, args ...any) (mcp.CallID, *mcp.Result, error) {
		res, err := toolError(catalog.ReadResult + ": " + fmt.Sprintf(format, args...))
		return of, res, err
	}
	var a resultArguments
	if wrong := a.read(req.Params.Raw(mcp.FieldArguments)); wrong != "" {
		return failed("%s", wrong)
	}
	if err := g.charge(ctx, req, &catalog.Entry{Kind: catalog.Tools, Name: catalog.ReadResult}); err != nil {
		return of, nil, err
	}
	r, ok := g.openResult(req, a.ID)
	switch {
	case !ok:
		return failed(unknownResult)
	case r == nil:
		return failed(resultIsGone)
	}
	of = r.origin.call
	if size := r.content.Size(); a.Offset > size {
		return failed("offset %d is behind the end of the result, which is %d", a.Offset, size)
	}
	v := g.viewFor(viewerOf(req))
	blocks, to := r.content.Blocks(a.Offset, r.lengthOf(a.Length), bound.Room(v.pieceOf(r, req)), resultURI+a.ID, r.mark)
	note := fmt.Sprintf("[This is the end of the result, at %d.]", to)
	if to < r.content.Size() {
		note = fmt.Sprintf("[This is up to %d of %d bytes. %s]", to, r.content.Size(), restOf(v, a.ID, to))
	}
	out := append([]byte(`{"resultType":"complete","content":[`), blocks...)
	if blocks != nil {
		out = append(out, ',')
	}
	out = jsonscan.AppendString(append(out, `{"type":"text","text":`...), note)
	res, err = mcp.NewResult(append(out, `}]}`...))
	return of, res, err
}

// defaultPiece is the size of a piece if results are no longer cut.
const defaultPiece = 256 << 10

// pieceOf returns how large a piece of a result may be.
func (v *view) pieceOf(r *keptResult, req *mcp.Request) int64 {
	if most := v.maxResult(r.origin.server, req.Client); most > 0 {
		return most
	}
	return defaultPiece
}

// lengthOf returns the length of a piece; negative is the longest.
func (r *keptResult) lengthOf(length int64) int64 {
	if length < 0 {
		return max(1, r.content.Size())
	}
	return length
}

// readKept serves resources/read for the URI of a result that was cut. of is the call that it is of. It reports
// false for one that the sender does not have: it is answered like any URI.
func (g *Gateway) readKept(ctx context.Context, req *mcp.Request, uri string) (of mcp.CallID, isKept bool, res *mcp.Result, err error) {
	v := g.viewFor(viewerOf(req))
	if !v.cuts {
		return of, false, nil, nil
	}
	id, query, _ := strings.Cut(strings.TrimPrefix(uri, resultURI), "?")
	r, ok := g.openResult(req, id)
	if !ok {
		return of, false, nil, nil
	}
	if err := g.charge(ctx, req, &catalog.Entry{Kind: catalog.Resources, Name: uri}); err != nil {
		return of, true, nil, err
	}
	if r == nil {
		return of, true, nil, mcp.Errorf(mcp.CodeResourceNotFound, "%s", resultIsGone)
	}
	of = r.origin.call
	offset, length, ok := pieceIn(query)
	switch size := r.content.Size(); {
	case !ok:
		return of, true, nil, mcp.Errorf(mcp.CodeInvalidParams, "the query of the URI of a result has an offset and a length, which are whole numbers")
	case offset > size:
		return of, true, nil, mcp.Errorf(mcp.CodeInvalidParams, "the offset is behind the end of the result, which is %d", size)
	}
	contents, _ := r.content.Contents(offset, r.lengthOf(length), bound.Room(v.pieceOf(r, req)), resultURI+id)
	if contents == nil { // the end
		contents = append(jsonscan.AppendString([]byte(`{"uri":`), uri), `,"mimeType":"text/plain","text":""}`...)
	}
	out := append([]byte(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","contents":[`), contents...)
	res, err = mcp.NewResult(append(out, "]}"...))
	return of, true, res, err
}

// pieceIn returns the offset and the length in the query of a URI; a missing length is -1.
func pieceIn(query string) (offset, length int64, ok bool) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return 0, 0, false
	}
	length = -1
	for name, all := range values {
		n, err := strconv.ParseInt(all[0], 10, 64)
		switch {
		case err != nil || n < 0 || len(all) > 1:
			return 0, 0, false
		case name == "offset":
			offset = n
		case name == "length" && n > 0:
			length = n
		default:
			return 0, 0, false
		}
	}
	return offset, length, true
}
