// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

// ResultStream is a terminal of which the client gets what there is while the rest still
// arrives. The exchange goes on meanwhile, with all that ends it: what is written
// last is its terminal like any other, without which the client has no whole answer.
//
// It is between two goroutines. One has the source, offers it, and waits for Done;
// the other writes the response, and takes it, or never does. A ResultStream that was taken
// is ended by whoever took it; one that was not ends with the stream's carrier, or by
// Withdraw.
type ResultStream struct {
	// Source is what there is to be written: the edge's own, which made the ResultStream.
	Source any

	done chan struct{}

	// Below: guarded by the core's lock until done is closed.
	taken bool
	over  bool
	err   error
}

// NewResultStream returns a ResultStream that was not offered yet.
func NewResultStream(source any) *ResultStream {
	return &ResultStream{Source: source, done: make(chan struct{})}
}

// Done returns a channel that is closed when nobody writes it, or ever will.
func (f *ResultStream) Done() <-chan struct{} { return f.done }

// Err returns why not all of it was written, nil where it was. It must not be called
// before Done is closed.
func (f *ResultStream) Err() error { return f.err }

func (f *ResultStream) endLocked(err error) {
	if f.over {
		return
	}
	f.over, f.err = true, err
	close(f.done)
}

// AcceptResultStreams says that the carrier can take a ResultStream, which those of pipes and of streams that
// can be resumed cannot.
func (c *Consumer) AcceptResultStreams() {
	c.stream.core.mu.Lock()
	defer c.stream.core.mu.Unlock()
	c.flows = true
}

// Offer answers the exchange with a ResultStream, which decides its form. It reports false, and
// changes nothing, where that is not possible any more: something else was appended,
// the form is decided, or there is no carrier that takes it.
//
// From then on what is appended is dropped, and asks fail: the client gets one object.
func (x *Exchange) OfferResultStream(f *ResultStream) bool {
	s := &x.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	switch {
	case x.over, x.form != Undecided, s.held, s.pausing, s.taken > 0, len(s.queue) > 0, s.flow != nil:
		return false
	case s.carrier == nil || !s.carrier.flows:
		return false
	}
	x.form = JSON
	s.flow = f
	s.wakeLocked()
	return true
}

// Withdraw takes back a ResultStream that no carrier has taken. It reports false where one has:
// then Done is to be waited for.
func (x *Exchange) WithdrawResultStream(f *ResultStream, why error) bool {
	x.stream.core.mu.Lock()
	defer x.stream.core.mu.Unlock()
	if f.taken {
		return false
	}
	f.endLocked(why)
	return true
}

// TakeResultStream returns the ResultStream that the exchange is answered with, nil where it is none.
// Whoever gets it writes it and calls EndResultStream.
func (c *Consumer) TakeResultStream() *ResultStream {
	s := c.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	f := s.flow
	if s.carrier != c || f == nil || f.taken || f.over || s.ended {
		return nil
	}
	f.taken = true
	return f
}

// EndResultStream is called when all of it was written, or why that cannot be.
func (c *Consumer) EndResultStream(f *ResultStream, err error) {
	c.stream.core.mu.Lock()
	defer c.stream.core.mu.Unlock()
	f.endLocked(err)
}

// dropFlowLocked ends a ResultStream that nobody will take.
func (s *Stream) dropFlowLocked() {
	if s.flow != nil && !s.flow.taken {
		s.flow.endLocked(ErrNoReceiver)
	}
}

// isDeafLocked reports whether nobody gets what is appended: the receiver is gone, or
// gets one object, of which it has had the beginning.
func (s *Stream) isDeafLocked() bool { return s.lost || s.flow != nil }
