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

// harm is what happens to a connection.
type harm int

const (
	none      harm = iota
	reset          // both ends get an error, and what was under way is lost
	finish         // both ends read to the end, and then nothing
	halfClose      // the client's end says that it has said all, and still reads
	deaf           // the client's end reads the end of the stream, and the server knows nothing
	hole           // bytes vanish in both directions, and nobody is told
	stall          // one read or write takes its time
	drip           // reads are short, and each takes its time
	harms          // how many there are
)

func (h harm) String() string {
	return [...]string{"none", "reset", "finish", "half-close", "deaf", "hole", "stall", "drip"}[h]
}

// fate is what is to happen to a connection, and when.
type fate struct {
	harm  harm
	write bool          // counted in writes of the client's end, and otherwise in reads
	after int           // so many of them pass before
	bytes int           // and so many of the next one
	past  int           // or so many bytes are read before, where this is not 0
	pause time.Duration // of a stall or a drip; before a reset, so that what was sent arrives
}

// line is one hop of the network: everybody who dials reaches who stands at its
// other end now.
type line struct {
	w    *world
	name string

	mu      sync.Mutex
	end     *memnet.Listener // nil while nobody listens
	open    []*conn          // in the order in which they were dialled
	coming  []fate           // of the connections that are dialled next
	bulky   []fate           // of those that bring the next large answers
	dialled int
	harmed  int              // how many connections were broken, be it by a crash
	slow    bool             // whether one was too slow for what a server waits for
	calls   map[string]*conn // which of them a call left on last, by its mark
}

func newLine(w *world, name string) *line {
	return &line{w: w, name: name, calls: make(map[string]*conn)}
}

var (
	errRefused = errors.New("connection refused")
	errBroken  = errors.New("connection reset by peer")
)

// transport returns a transport whose connections are those of the line.
func (l *line) transport(foreign bool) transport {
	return newTransport(foreign, func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) })
}

// transport is what makes requests.
type transport interface {
	http.RoundTripper
	CloseIdleConnections()
}

// newTransport returns the one that our client has of its own, or that of net/http, as
// somebody gives it to our client.
func newTransport(foreign bool, dial func(ctx context.Context, network, address string) (net.Conn, error)) transport {
	if foreign {
		return &http.Transport{DialContext: dial, DisableCompression: true}
	}
	own := memnet.Hop(dial)
	own.WriteTimeout = 10 * time.Second // as is the default of a client
	return own
}

// openPipe opens a pipe to a process, which begins with it.
func (l *line) openPipe(ctx context.Context) (io.ReadWriteCloser, error) {
	c, err := l.dial(ctx)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (l *line) dial(ctx context.Context) (*conn, error) {
	end, f, n := l.next()
	if end == nil {
		return nil, errRefused
	}
	inner, err := end.Dial(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, line: l, n: n}
	c.arm(f)
	if !l.admit(c, end) {
		inner.Reset() // whoever was there is gone already
		return nil, errRefused
	}
	return c, nil
}

// next takes what the next connection is to be.
func (l *line) next() (*memnet.Listener, fate, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end == nil {
		return nil, fate{}, 0
	}
	var f fate
	if len(l.coming) > 0 {
		f, l.coming = l.coming[0], l.coming[1:]
	}
	l.dialled++
	return l.end, f, l.dialled
}

func (l *line) admit(c *conn, end *memnet.Listener) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != end {
		return false
	}
	l.open = append(l.open, c)
	return true
}

func (l *line) forget(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.open, c); i >= 0 {
		l.open = slices.Delete(l.open, i, i+1)
	}
}

// listen puts somebody at the other end.
func (l *line) listen(buffer int) *memnet.Listener {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = memnet.Listen()
	l.end.Buffer = buffer
	return l.end
}

// close takes away who stands at the other end. Connections that are open stay.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		_ = l.end.Close()
		l.end = nil
	}
}

// sees notes whose call it is that a connection is to carry, and has that meet its fate
// where the answer is a large one. The body of a call is written at once, and nobody on
// the way writes it anew.
func (l *line) sees(c *conn, p []byte) {
	call := callOf.FindSubmatch(p)
	if call == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls[string(call[1])] == c {
		return // this is the rest of it
	}
	l.calls[string(call[1])] = c
	if bytes.Contains(call[2], []byte("b")) && len(l.bulky) > 0 {
		c.arm(l.bulky[0])
		l.bulky = l.bulky[1:]
	}
}

// callOf finds the mark of a call, and its script.
var callOf = regexp.MustCompile(`"mark":"([^"]*)","do":"([^"]*)"`)

// carrierOf returns the connection that a call left on last, nil where it never did.
func (l *line) carrierOf(mark string) *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[mark]
}

// connections returns those that are open, oldest first.
func (l *line) connections() []*conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.open)
}

// crash breaks all connections, as the end of a process does.
func (l *line) crash() {
	l.close()
	l.reset()
}

// reset breaks all connections that are open.
func (l *line) reset() {
	for _, c := range l.connections() {
		c.breaks()
		c.Reset()
	}
}

// cure breaks the connections on which nothing would ever arrive, and spares
// those that come.
func (l *line) cure() {
	l.mu.Lock()
	l.coming, l.bulky = nil, nil
	l.mu.Unlock()
	for _, c := range l.connections() {
		if c.broken.Load() {
			c.Reset()
		}
		c.arm(fate{})
	}
}

// expect has the next connection meet its fate.
func (l *line) expect(f fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.coming = append(l.coming, f)
}

// expectLarge has the next connection meet its fate that is to bring a large answer.
func (l *line) expectLarge(f fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bulky = append(l.bulky, f)
}

// slowest is how many bytes a client reads in a second that has not stopped to read:
// a piece of an answer in the time of server.DefaultWriteTimeout.
const slowest = 16 << 10 / 10

// conn is the client's end of a connection.
type conn struct {
	*memnet.Conn

	line *line
	n    int

	fate   atomic.Pointer[fate]
	ops    [2]atomic.Int32 // reads and writes since it was armed
	got    atomic.Int64    // bytes that were read since
	broken atomic.Bool     // what is sent on it may not arrive, in either direction
	isHole atomic.Bool
	isDeaf atomic.Bool
	isSlow atomic.Bool               // too slow for what a server waits for
	harmed atomic.Pointer[time.Time] // since when it is not what it was, nil while it is
}

// worsens notes when the connection has begun to be one on which the server may have
// given up, long before its client finds out.
func (c *conn) worsens() {
	now := time.Now()
	c.harmed.CompareAndSwap(nil, &now)
}

// harmedAt returns since when a carrier that began then has not been on a connection
// as it should be: now, where nothing was wrong with it until now.
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

// arm gives the connection another fate.
func (c *conn) arm(f fate) {
	c.ops[0].Store(0)
	c.ops[1].Store(0)
	c.got.Store(0)
	c.fate.Store(&f)
}

// holds reports whether an answer can be expected on the connection: it is there, is not
// broken, and not so slow that it counts as one that nobody reads.
func (c *conn) holds() bool { return c != nil && !c.broken.Load() && !c.isSlow.Load() }

// breaks notes that from now on nobody can rely on the connection.
func (c *conn) breaks() {
	c.worsens()
	if c.broken.Swap(true) {
		return
	}
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	c.line.harmed++
}

// slows notes that a server may give the connection up.
func (c *conn) slows() {
	c.isSlow.Store(true)
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	c.line.slow = true
}

// due reports whether the time has come with this read or write, of n bytes.
func (c *conn) due(f *fate, write bool, n int) bool {
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
	// A read may have begun under another fate.
	if !isNow || c.fate.Load() != f {
		return false
	}
	c.line.w.note("%s connection %d: %s", c.line.name, c.n, f.harm)
	c.line.w.count(f.harm)
	return true
}

// Write writes, until the fate is due.
func (c *conn) Write(p []byte) (int, error) {
	c.line.sees(c, p)
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

// TryWrite writes what can be written at once, until the fate is due.
func (c *conn) TryWrite(p []byte) (int, error) {
	c.line.sees(c, p)
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

// strikeLater takes a part, as nobody can wait here: who writes the rest does. A
// connection without a rest breaks by itself.
func (c *conn) strikeLater(f fate, p []byte) (int, error) {
	n, err := c.Conn.TryWrite(p[:min(f.bytes, len(p))])
	if n == len(p) && f.harm == reset {
		c.breaks()
		time.AfterFunc(f.pause, c.Reset)
		return n, err
	}
	f.write, f.after, f.bytes = true, 0, 0
	c.arm(f)
	return n, err
}

// IsQuiet reports whether nothing has come, and no end either.
func (c *conn) IsQuiet() bool {
	for c.isHole.Load() && !c.Conn.IsQuiet() {
		if _, err := c.Conn.Read(make([]byte, 512)); err != nil { // which does not wait, and is nobody's
			return false
		}
	}
	return !c.isDeaf.Load() && c.Conn.IsQuiet()
}

// strike is a write that the fate meets.
func (c *conn) strike(f *fate, p []byte, write func([]byte) (int, error)) (int, error) {
	c.breaks()
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

// cut breaks the connection in one of the two ways that both ends see.
func (c *conn) cut(f *fate) {
	if f.harm == finish {
		_ = c.Conn.Close()
		return
	}
	c.line.w.sleep(f.pause) // what was sent arrives, or does not
	c.Reset()
}

// wait is a pause. A long one is as good as a break: somebody may have lost
// patience.
func (c *conn) wait(d time.Duration) {
	if d > 5*time.Second {
		c.breaks()
	}
	c.line.w.sleep(d)
}

// Read reads, until the fate is due.
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
		c.worsens()
		if f.pause > 0 && float64(f.bytes+64)/f.pause.Seconds() < slowest {
			c.slows()
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
		c.breaks()
		_ = c.CloseWrite()
		return n, nil
	case hole:
		c.breaks()
		c.isHole.Store(true)
		return n, nil
	case deaf:
		c.breaks()
		c.isDeaf.Store(true)
		return n, nil
	default:
		c.breaks()
		c.cut(f)
		return min(f.bytes, n), errBroken
	}
}

// Close closes the connection for both ends.
func (c *conn) Close() error {
	c.line.forget(c)
	return c.Conn.Close()
}
