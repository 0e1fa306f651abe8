// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// fault is a fault of a connection.
type fault int

const (
	none      fault = iota
	reset           // both ends get an error, and bytes in transit are lost
	finish          // both ends read to the end, and then nothing
	halfClose       // the client's end closes its direction, and still reads
	deaf            // the client's end reads the end of the stream, and the server does not notice
	hole            // bytes vanish in both directions without an error
	stall           // one read or write is slow
	drip            // reads are short and slow
	faults          // the number of faults
)

func (h fault) String() string {
	return [...]string{"none", "reset", "finish", "half-close", "deaf", "hole", "stall", "drip"}[h]
}

// faultPlan is the fault of a connection, and its time.
type faultPlan struct {
	harm  fault
	write bool          // counted in writes of the client's end, otherwise in reads
	after int           // operations before it
	bytes int           // and bytes of the next one
	past  int           // or bytes that are read before it, if not 0
	pause time.Duration // of a stall or a drip; before a reset, so that what was sent arrives
}

// link is one hop of the network: dialers reach the process that currently serves its other
// end.
type link struct {
	w    *world
	name string

	mu      sync.Mutex
	end     *memnet.Listener // nil while no process listens
	open    []*conn          // in dial order
	coming  []faultPlan      // of the next connections
	bulky   []faultPlan      // of those that carry the next large answers
	dialled int
	harmed  int              // how many connections were broken, including by crashes
	slow    bool             // whether one was slower than a server's timeout
	calls   map[string]*conn // the connection that a call was last sent on, by its mark
	watched bool             // what is sent to the other end has no token of a client
}

func newLink(w *world, name string) *link {
	return &link{w: w, name: name, calls: make(map[string]*conn)}
}

var (
	errRefused = errors.New("connection refused")
	errBroken  = errors.New("connection reset by peer")
)

// transport returns a transport that dials through the link.
func (l *link) transport(foreign bool) transport {
	return newTransport(foreign, func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) })
}

// transport makes requests.
type transport interface {
	http.RoundTripper
	CloseIdleConnections()
}

// newTransport returns the client package's own transport, or that of net/http as an
// embedder may configure it.
func newTransport(foreign bool, dial func(ctx context.Context, network, address string) (net.Conn, error)) transport {
	if foreign {
		return &http.Transport{DialContext: dial, DisableCompression: true}
	}
	own := memnet.HTTP1(dial)
	own.WriteTimeout = 10 * time.Second // the default of a client
	return own
}

// openPipe opens a pipe to a process, which starts with it.
func (l *link) openPipe(ctx context.Context) (io.ReadWriteCloser, error) {
	c, err := l.dial(ctx)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (l *link) dial(ctx context.Context) (*conn, error) {
	end, f, n := l.next()
	if end == nil {
		return nil, errRefused
	}
	inner, err := end.Dial(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, line: l, n: n}
	if l.watched {
		c.sent = l.w.watch.Writer(l.name)
	}
	c.arm(f)
	if !l.admit(c, end) {
		inner.Reset() // the process has gone already
		return nil, errRefused
	}
	return c, nil
}

// next returns the parameters of the next connection.
func (l *link) next() (*memnet.Listener, faultPlan, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end == nil {
		return nil, faultPlan{}, 0
	}
	var f faultPlan
	if len(l.coming) > 0 {
		f, l.coming = l.coming[0], l.coming[1:]
	}
	l.dialled++
	return l.end, f, l.dialled
}

func (l *link) admit(c *conn, end *memnet.Listener) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != end {
		return false
	}
	l.open = append(l.open, c)
	return true
}

func (l *link) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.open, c); i >= 0 {
		l.open = slices.Delete(l.open, i, i+1)
	}
}

// listen attaches a process to the other end.
func (l *link) listen(buffer int) *memnet.Listener {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = memnet.Listen()
	l.end.Buffer = buffer
	return l.end
}

// close detaches the process. Open connections remain.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		_ = l.end.Close()
		l.end = nil
	}
}

// inspect records which call is sent on a connection, and applies the plan for large
// answers. The body of a call is written at once, and is forwarded unmodified.
func (l *link) inspect(c *conn, p []byte) {
	l.scan(c, p)
	call := callOf.FindSubmatch(p)
	if call == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls[string(call[1])] == c {
		return // the rest of a body
	}
	l.calls[string(call[1])] = c
	if bytes.Contains(call[2], []byte("b")) && len(l.bulky) > 0 {
		c.arm(l.bulky[0])
		l.bulky = l.bulky[1:]
	}
}

// scan scans what is sent for tokens of clients.
func (l *link) scan(c *conn, p []byte) {
	if c.sent == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = c.sent.Write(p) // returns no error
}

// callOf matches the mark of a call and its script.
var callOf = regexp.MustCompile(`"mark":"([^"]*)","do":"([^"]*)"`)

// carrierOf returns the connection that a call was last sent on, or nil.
func (l *link) carrierOf(mark string) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[mark]
}

// connections returns the open connections, oldest first.
func (l *link) connections() []*conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.open)
}

// crash breaks all connections, as the end of a process does.
func (l *link) crash() {
	l.close()
	l.reset()
}

// reset breaks all open connections.
func (l *link) reset() {
	for _, c := range l.connections() {
		c.markBroken()
		c.Reset()
	}
}

// repair breaks the connections that lose bytes, and removes the plans for new ones.
func (l *link) repair() {
	l.mu.Lock()
	l.coming, l.bulky = nil, nil
	l.mu.Unlock()
	for _, c := range l.connections() {
		if c.broken.Load() {
			c.Reset()
		}
		c.arm(faultPlan{})
	}
}

// plan sets the fault of the next connection.
func (l *link) plan(f faultPlan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.coming = append(l.coming, f)
}

// planLarge sets the fault of the next connection that carries a large answer.
func (l *link) planLarge(f faultPlan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bulky = append(l.bulky, f)
}

// slowest is the slowest read rate in bytes per second of a client that is not considered
// stalled: one chunk of an answer per server.DefaultWriteTimeout.
const slowest = 16 << 10 / 10

// conn is the client's end of a connection.
type conn struct {
	*memnet.Conn

	line *link
	n    int
	sent io.Writer // scans what is sent, or is nil; guarded by link.mu

	fate   atomic.Pointer[faultPlan]
	ops    [2]atomic.Int32 // reads and writes since it was armed
	got    atomic.Int64    // bytes read since then
	broken atomic.Bool     // sent bytes may not arrive, in either direction
	isHole atomic.Bool
	isDeaf atomic.Bool
	isSlow atomic.Bool               // slower than a server's timeout
	harmed atomic.Pointer[time.Time] // when it began to be faulty; nil before that
}

// degrade records when the connection became one that the server may have given up, long
// before its client notices.
func (c *conn) degrade() {
	now := time.Now()
	c.harmed.CompareAndSwap(nil, &now)
}

// harmedAt returns since when a response that began at that time has been on a faulty
// connection: now, if nothing was wrong with it so far.
func (c *conn) harmedAt(began time.Time) time.Time {
	at := c.harmed.Load()
	switch {
	case at == nil:
		return time.Now()
	case at.Before(began):
		return began
	default:
		return *at
	}
}

// arm sets another plan for the connection.
func (c *conn) arm(f faultPlan) {
	c.ops[0].Store(0)
	c.ops[1].Store(0)
	c.got.Store(0)
	c.fate.Store(&f)
}

// isUsable reports whether an answer can be expected on the connection: it exists, is not
// broken, and not so slow that it counts as stalled.
func (c *conn) isUsable() bool { return c != nil && !c.broken.Load() && !c.isSlow.Load() }

// markBroken records that the connection is no longer reliable.
func (c *conn) markBroken() {
	c.degrade()
	if c.broken.Swap(true) {
		return
	}
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	c.line.harmed++
}

// markSlow records that a server may give the connection up.
func (c *conn) markSlow() {
	c.isSlow.Store(true)
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	c.line.slow = true
}

// due reports whether the fault is due with this read or write of n bytes.
func (c *conn) due(f *faultPlan, write bool, n int) bool {
	if f.harm == none || f.harm == drip || f.write != write {
		return false
	}
	i, was := 0, 0
	if write {
		i = 1
	} else {
		was = int(c.got.Add(int64(n))) - n
	}
	isNow := int(c.ops[i].Add(1)) == f.after+1
	if f.past > 0 {
		isNow = was < f.past && f.past <= was+n
	}
	// A read may have begun under another plan.
	if !isNow || c.fate.Load() != f {
		return false
	}
	c.line.w.note("%s connection %d: %s", c.line.name, c.n, f.harm)
	c.line.w.count(f.harm)
	return true
}

// Write writes until the fault is due.
func (c *conn) Write(p []byte) (int, error) {
	c.line.inspect(c, p)
	f := c.fate.Load()
	switch {
	case c.isHole.Load():
		return len(p), nil
	case !c.due(f, true, len(p)):
		return c.Conn.Write(p)
	case f.harm == stall:
		c.wait(f.pause)
		return c.Conn.Write(p)
	default:
		return c.strike(f, p, c.Conn.Write)
	}
}

// TryWrite writes without blocking until the fault is due.
func (c *conn) TryWrite(p []byte) (int, error) {
	c.line.inspect(c, p)
	f := c.fate.Load()
	switch {
	case c.isHole.Load():
		return len(p), nil
	case !c.due(f, true, len(p)):
		return c.Conn.TryWrite(p)
	case f.pause > 0 && (f.harm == stall || f.harm == reset):
		return c.strikeLater(*f, p)
	default:
		return c.strike(f, p, c.Conn.TryWrite)
	}
}

// strikeLater writes a part, because TryWrite must not block: the Write of the rest injects
// the fault. A connection without a rest breaks by itself.
func (c *conn) strikeLater(f faultPlan, p []byte) (int, error) {
	n, err := c.Conn.TryWrite(p[:min(f.bytes, len(p))])
	if n == len(p) && f.harm == reset {
		c.markBroken()
		time.AfterFunc(f.pause, c.Reset)
		return n, err
	}
	f.write, f.after, f.bytes = true, 0, 0
	c.arm(f)
	return n, err
}

// IsQuiet reports whether there is nothing to read, and no end.
func (c *conn) IsQuiet() bool {
	for c.isHole.Load() && !c.Conn.IsQuiet() {
		if _, err := c.Conn.Read(make([]byte, 512)); err != nil { // does not block; the bytes are discarded
			return false
		}
	}
	return !c.isDeaf.Load() && c.Conn.IsQuiet()
}

// strike injects the fault into a write.
func (c *conn) strike(f *faultPlan, p []byte, write func([]byte) (int, error)) (int, error) {
	c.markBroken()
	switch f.harm {
	case halfClose:
		n, err := write(p)
		_ = c.CloseWrite()
		return n, err
	case hole:
		c.isHole.Store(true)
		return len(p), nil
	case deaf:
		c.isDeaf.Store(true)
		return write(p)
	default:
		n, err := write(p[:min(f.bytes, len(p))])
		c.cut(f)
		if err == nil && n < len(p) {
			err = errBroken
		}
		return n, err
	}
}

// cut breaks the connection in one of the two ways that both ends notice.
func (c *conn) cut(f *faultPlan) {
	if f.harm == finish {
		_ = c.Conn.Close()
		return
	}
	c.line.w.sleep(f.pause) // what was sent arrives, or does not
	c.Reset()
}

// wait pauses. A long pause is like a break: a peer may have timed out.
func (c *conn) wait(d time.Duration) {
	if d > 5*time.Second {
		c.markBroken()
	}
	c.line.w.sleep(d)
}

// Read reads until the fault is due.
func (c *conn) Read(p []byte) (int, error) {
	for {
		if c.isDeaf.Load() {
			return 0, io.EOF
		}
		n, err := c.readOnce(p)
		if err != nil || !c.isHole.Load() {
			return n, err
		}
	}
}

func (c *conn) readOnce(p []byte) (int, error) {
	f := c.fate.Load()
	if f.harm == drip && len(p) > f.bytes+64 {
		c.degrade()
		if f.pause > 0 && float64(f.bytes+64)/f.pause.Seconds() < slowest {
			c.markSlow()
		}
		p = p[:f.bytes+64]
		c.line.w.sleep(f.pause)
	}
	n, err := c.Conn.Read(p)
	if err != nil || !c.due(f, false, n) {
		return n, err
	}
	switch f.harm {
	case stall:
		c.wait(f.pause)
		return n, nil
	case halfClose:
		c.markBroken()
		_ = c.CloseWrite()
		return n, nil
	case hole:
		c.markBroken()
		c.isHole.Store(true)
		return n, nil
	case deaf:
		c.markBroken()
		c.isDeaf.Store(true)
		return n, nil
	default:
		c.markBroken()
		c.cut(f)
		return min(f.bytes, n), errBroken
	}
}

// Close closes the connection for both ends.
func (c *conn) Close() error {
	c.line.forget(c)
	return c.Conn.Close()
}
