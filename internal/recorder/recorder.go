// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recorder keeps the latest calls of a gateway in memory: which call went where,
// how it ended, and where its time went.
//
// A [Recorder] is a ring. It is always on, so it takes no memory for a call and well
// below a microsecond. It contains no arguments and no results, and nothing in it refers
// to a request. The times of a call come from its [mcp.Timeline], which the packages that
// the call passes mark.
package recorder

import (
	"crypto/rand"
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/signalbox-mcp/signalbox/mcp"
)

const (
	// Size is the number of calls that a Recorder keeps.
	Size = 4096

	// MaxName is the length to which the name of a call is cut.
	MaxName = 64
	// MaxBackend is the length to which the name of its backend is cut.
	MaxBackend = 32
	// MaxClient is the length to which the name of its client is cut.
	MaxClient = 32

	maxTexts   = 120 // the names of a call in a record; that of the item is cut further if the others are long
	maxClients = 256 // descriptions of clients that are kept
)

// Call is the record of one call.
type Call struct {
	ID       mcp.CallID
	Parent   mcp.CallID // the call that has made it, or 0
	Received time.Time
	Ended    time.Duration // when its result or error was known, after Received; as are all times below

	Method   string // of those in Methods
	Name     string // of the item, or its URI, cut to MaxName
	Backend  string // "" if none was asked; cut to MaxBackend
	Client   string // name and version, as the client gives them; cut to MaxClient
	Outcome  string // of those in Outcomes
	Code     int64  // of the error
	Reason   string // the code of the cause, such as SB_NET_DNS, or ""
	Delivery mcp.Outcome

	Inner         int    // how many calls it has made that have ended
	InnerOutcome  string // of the worst of these, of those in Outcomes
	InnerDelivery mcp.Outcome

	ClientVersion, BackendVersion mcp.Version // "" if unknown
	RequestBytes, ResponseBytes   int64       // of params and result; the latter is 0 if it is unknown

	Stages    [mcp.NumStages]time.Duration // -1 for a stage that was not reached, or is not known
	Start     time.Duration                // of the wait for a connection: the start of a process
	Install   time.Duration                // of Start: a package manager
	Handshake time.Duration                // of the wait for a connection: the handshake
	Attempts  int                          // how often it was sent to the backend
	Asks      int                          // requests to the client
	Waiting   time.Duration                // how long one of them was unanswered
	Delivered time.Duration                // when the answer was written to the client; 0 if it was not, or not yet
}

// SetStages sets the members that a Timeline has. Without one, no stage is known.
func (c *Call) SetStages(t *mcp.Timeline) {
	for s := range c.Stages {
		c.Stages[s] = -1
	}
	if t == nil {
		return
	}
	for s := range mcp.NumStages {
		if at, ok := t.At(s); ok {
			c.Stages[s] = at
		}
	}
	c.Attempts = t.Attempts()
	c.Start, c.Handshake = t.Opening()
	c.Install = t.Installing()
	c.Asks, c.Waiting = t.Asks()
}

// OtherMethod is the Method of a request of an extension that the gateway does not know. Its Name is the
// method that the client has sent.
const OtherMethod = "_OTHER"

// Methods returns the methods of the requests that are recorded.
func Methods() []string {
	return []string{"tools/call", "prompts/get", "resources/read", "completion/complete", OtherMethod}
}

// Outcomes returns how a call may end.
func Outcomes() []string {
	return []string{"ok", "tool_error", "input_required", "task", "error", "cancelled", "failed"}
}

// words are the values that a record contains as numbers, plus one. Zero is "".
//
//nolint:gochecknoglobals // constant
var words = struct {
	methods, outcomes []string
	deliveries        []mcp.Outcome
	versions          []mcp.Version
}{
	Methods(), Outcomes(),
	[]mcp.Outcome{mcp.NotDispatched, mcp.Unknown, mcp.Completed},
	slices.Concat(mcp.LegacyVersions(), mcp.ModernVersions()),
}

func number[T comparable](words []T, word T) uint8 { return uint8(slices.Index(words, word) + 1) }

func word[T any](words []T, n uint8) (none T) {
	if n == 0 {
		return none
	}
	return words[n-1]
}

// record is a Call in the ring. It has no pointers, so that the ring costs the garbage
// collector nothing.
type record struct {
	id       mcp.CallID
	parent   mcp.CallID
	received int64 // Unix nanoseconds

	ended, delivered, waiting time.Duration
	stages                    [mcp.NumStages]time.Duration

	start, install, handshake   micros
	inner                       uint16
	innerOutcome, innerDelivery uint8

	code                          int64
	requestBytes, responseBytes   int64
	asks, attempts                uint16
	method, outcome, delivery     uint8
	clientVersion, backendVersion uint8

	// The texts, one after the other.
	backendLen, clientLen, reasonLen, nameLen uint8
	texts                                     [maxTexts]byte
}

// micros are microseconds, up to an hour.
type micros uint32

func microsOf(d time.Duration) micros { return micros(min(d.Microseconds(), math.MaxUint32)) }

func (m micros) duration() time.Duration { return time.Duration(m) * time.Microsecond }

// slot is a place in the ring. The lock is held for a copy of the record only.
type slot struct {
	mu     sync.Mutex
	number uint64 // of the record in it, counted from 1
	record record
}

// Recorder keeps the latest calls. Its methods may be called concurrently.
type Recorder struct {
	ids
	clients

	// OnDelivered is Delivered as a value, which would otherwise be allocated for each call.
	OnDelivered func(number uint64, after time.Duration)

	last atomic.Uint64 // the number of the newest record
	ring []slot
}

// New returns an empty Recorder.
func New() *Recorder {
	r := &Recorder{ring: newRing()}
	r.OnDelivered = r.Delivered
	r.start = randomStart()
	return r
}

// firstRing is the ring of the first Recorder of the process, which nearly always is the
// only one. It is no part of the heap: there a MiB more that is in use would make the
// collections of a small program a third more frequent.
//
//nolint:gochecknoglobals // memory, not state
var (
	firstRing  [Size]slot
	firstTaken atomic.Bool
)

func newRing() []slot {
	if firstTaken.CompareAndSwap(false, true) {
		return firstRing[:]
	}
	return make([]slot, Size)
}

// Add records a call that has ended. It returns the number of the record, for Delivered.
func (r *Recorder) Add(c *Call) (number uint64) {
	n := r.last.Add(1)
	s := &r.ring[n%Size]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.number < n { // otherwise this goroutine was overtaken by a whole round
		s.number = n
		s.record.set(c)
	}
	return n
}

// Delivered records when the answer of the call with the number was written to the
// client. It has no effect if the record is gone.
func (r *Recorder) Delivered(number uint64, after time.Duration) {
	s := &r.ring[number%Size]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.number == number {
		s.record.delivered = after
	}
}

// Find returns the call with the id. It reports false if the ring does not have it.
func (r *Recorder) Find(id mcp.CallID) (Call, bool) {
	for c := range r.Latest {
		if c.ID == id {
			return c, true
		}
	}
	return Call{}, false
}

// Latest calls yield for the calls in the ring, newest first, until it returns false.
// Calls that are recorded meanwhile may be missing.
func (r *Recorder) Latest(yield func(Call) bool) {
	for n, left := r.last.Load(), Size; n > 0 && left > 0; n, left = n-1, left-1 {
		if c, ok := r.numbered(n); ok && !yield(c) {
			return
		}
	}
}

// Since returns when the oldest call in the ring was received, and how many calls were
// recorded in all. It reports false if none was.
func (r *Recorder) Since() (oldest time.Time, recorded uint64, ok bool) {
	recorded = r.last.Load()
	for n := max(recorded, Size) - Size + 1; n <= recorded; n++ {
		if c, ok := r.numbered(n); ok {
			return c.Received, recorded, true
		}
	}
	return time.Time{}, recorded, false
}

func (r *Recorder) numbered(n uint64) (Call, bool) {
	s := &r.ring[n%Size]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.number != n {
		return Call{}, false
	}
	return s.record.call(), true
}

func (d *record) set(c *Call) {
	d.id, d.parent, d.received = c.ID, c.Parent, c.Received.UnixNano()
	d.ended, d.delivered, d.waiting = c.Ended, c.Delivered, c.Waiting
	d.start, d.install, d.handshake = microsOf(c.Start), microsOf(c.Install), microsOf(c.Handshake)
	d.stages = c.Stages
	d.code, d.requestBytes, d.responseBytes = c.Code, c.RequestBytes, c.ResponseBytes
	d.asks, d.attempts = count(c.Asks), count(c.Attempts)
	d.method, d.outcome = number(words.methods, c.Method), number(words.outcomes, c.Outcome)
	d.delivery = number(words.deliveries, c.Delivery)
	d.inner, d.innerOutcome, d.innerDelivery = count(c.Inner), number(words.outcomes, c.InnerOutcome), number(words.deliveries, c.InnerDelivery)
	d.clientVersion, d.backendVersion = number(words.versions, c.ClientVersion), number(words.versions, c.BackendVersion)
	rest := d.texts[:]
	d.backendLen, rest = put(rest, c.Backend, MaxBackend)
	d.clientLen, rest = put(rest, c.Client, MaxClient)
	d.reasonLen, rest = put(rest, c.Reason, maxReason)
	d.nameLen, _ = put(rest, c.Name, MaxName)
}

// maxReason is the length of the longest code of a cause, with some to spare.
const maxReason = 24

// put writes a text, cut to most bytes, and returns its length and what is left.
func put(to []byte, text string, most int) (n uint8, rest []byte) {
	k := copy(to, cut(text, min(most, len(to))))
	return uint8(k), to[k:]
}

// take is the reverse of put.
func take(from []byte, n uint8) (text string, rest []byte) { return string(from[:n]), from[n:] }

func (d *record) call() Call {
	c := Call{
		ID: d.id, Parent: d.parent, Received: time.Unix(0, d.received), Ended: d.ended, Delivered: d.delivered,
		Start: d.start.duration(), Install: d.install.duration(), Handshake: d.handshake.duration(), Waiting: d.waiting, Stages: d.stages,
		Code: d.code, RequestBytes: d.requestBytes, ResponseBytes: d.responseBytes,
		Asks: int(d.asks), Attempts: int(d.attempts),
		Method: word(words.methods, d.method), Outcome: word(words.outcomes, d.outcome),
		Delivery: word(words.deliveries, d.delivery),
		Inner:    int(d.inner), InnerOutcome: word(words.outcomes, d.innerOutcome), InnerDelivery: word(words.deliveries, d.innerDelivery),
		ClientVersion: word(words.versions, d.clientVersion), BackendVersion: word(words.versions, d.backendVersion),
	}
	rest := d.texts[:]
	c.Backend, rest = take(rest, d.backendLen)
	c.Client, rest = take(rest, d.clientLen)
	c.Reason, rest = take(rest, d.reasonLen)
	c.Name, _ = take(rest, d.nameLen)
	return c
}

func count(n int) uint16 { return uint16(min(n, 1<<16-1)) }

// cut cuts a text to most bytes and not within a character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// ids makes the ids of calls.
type ids struct {
	start  uint64 // of the counter in each millisecond: ids do not show how many calls there were
	newest atomic.Uint64
}

// randomStart returns a number in the lower half of what the counter can count.
func randomStart() uint64 {
	var b [2]byte
	_, _ = rand.Read(b[:]) // never fails
	return uint64(binary.LittleEndian.Uint16(b[:]) & (1<<13 - 1))
}

// NewID returns the id of a call that was received at the time. It is larger than all
// before, also if the clock was set back.
func (s *ids) NewID(received time.Time) mcp.CallID {
	const perMilli = 1 << 14
	fresh := uint64(received.UnixMilli())*perMilli + s.start
	for {
		last := s.newest.Load()
		next := max(fresh, last+1)
		if s.newest.CompareAndSwap(last, next) {
			return mcp.CallIDAt(time.UnixMilli(int64(next/perMilli)), next%perMilli)
		}
	}
}

// clients are the names of clients by their Implementation objects, which would be
// decoded for each call of a modern client otherwise.
type clients struct {
	mu    sync.Mutex
	names map[string]string
}

// ClientName returns what describe returns for the Implementation object of a client.
func (c *clients) ClientName(info []byte, describe func(info []byte) string) string {
	if len(info) == 0 {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if name, ok := c.names[string(info)]; ok {
		return name
	}
	name := describe(info)
	if len(info) > maxInfo {
		return name
	}
	if c.names == nil || len(c.names) >= maxClients { // chosen by clients, so that no order helps
		c.names = make(map[string]string)
	}
	c.names[string(info)] = name
	return name
}

// maxInfo is the largest Implementation object that is kept.
const maxInfo = 1 << 10
