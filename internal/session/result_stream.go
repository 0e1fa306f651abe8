// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

// ResultStream is a large result that is sent to the client while the rest still arrives.
// The exchange remains in flight and can be cancelled or aborted as usual. The last message
// written is its terminal, without which the client's answer is incomplete.
//
// It connects two goroutines. The producer offers it and waits for Done. The goroutine that
// writes the response may take it, and then must end it. A ResultStream that is not taken
// ends with the stream's consumer, or by WithdrawResultStream.
type ResultStream struct {
	// Source is the data to write. It belongs to the code that made the ResultStream.
	Source any

	done chan struct{} // made when it is offered

	// Below: guarded by the core's lock until done is closed.
	taken bool
	ended bool
	err   error
	gone  <-chan struct{} // of the consumer that it was offered to
}

// Done returns a channel that is closed when the ResultStream is no longer written. It must
// not be called before OfferResultStream has reported true.
func (f *ResultStream) Done() <-chan struct{} { return f.done }

// IsDone reports whether the channel of Done is closed.
func (f *ResultStream) IsDone() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// Gone returns the channel that is closed when the client that the ResultStream was offered
// to is gone. It must not be called before OfferResultStream has reported true.
func (f *ResultStream) Gone() <-chan struct{} { return f.gone }

// Err returns why the ResultStream was not written completely, or nil. It must not be
// called before Done is closed.
func (f *ResultStream) Err() error { return f.err }

func (f *ResultStream) endLocked(err error) {
	if f.ended {
		return
	}
	f.ended, f.err = true, err
	close(f.done)
}

// AcceptResultStreams declares that the consumer can take a ResultStream. Consumers of
// pipes and of resumable streams cannot. gone is closed when the client is gone; it may be
// nil.
func (c *Consumer) AcceptResultStreams(gone <-chan struct{}) {
	c.stream.core.mu.Lock()
	defer c.stream.core.mu.Unlock()
	c.acceptsResultStream, c.gone = true, gone
}

// OfferResultStream answers the exchange with a ResultStream, which decides the form of the
// answer. It reports false and changes nothing if that is no longer possible: a message was
// appended, the form is decided, or no consumer accepts it.
//
// Afterwards appended messages are dropped and asks fail, because the client gets one JSON
// object.
func (x *Exchange) OfferResultStream(f *ResultStream) bool {
	s := &x.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	switch {
	case x.ended, x.form != Undecided, s.held, s.pausing, s.lastPos > 0, len(s.queue) > 0, s.resultStream != nil:
		return false
	case s.consumer == nil || !s.consumer.acceptsResultStream:
		return false
	}
	x.form = JSON
	s.resultStream, f.done, f.gone = f, make(chan struct{}), s.consumer.gone
	s.wakeLocked()
	return true
}

// WithdrawResultStream ends a ResultStream that no consumer has taken. It reports false if
// one has; then the caller must wait for Done.
func (x *Exchange) WithdrawResultStream(f *ResultStream, why error) bool {
	x.stream.core.mu.Lock()
	defer x.stream.core.mu.Unlock()
	if f.taken {
		return false
	}
	f.endLocked(why)
	return true
}

// TakeResultStream returns the ResultStream that answers the exchange, or nil. The caller
// must write it and call EndResultStream.
func (c *Consumer) TakeResultStream() *ResultStream {
	s := c.stream
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	f := s.resultStream
	if s.consumer != c || f == nil || f.taken || f.ended || s.ended {
		return nil
	}
	f.taken = true
	return f
}

// EndResultStream ends the ResultStream; err is nil if it was written completely.
func (c *Consumer) EndResultStream(f *ResultStream, err error) {
	c.stream.core.mu.Lock()
	defer c.stream.core.mu.Unlock()
	f.endLocked(err)
}

// dropResultStreamLocked ends a ResultStream that no consumer will take.
func (s *Stream) dropResultStreamLocked() {
	if s.resultStream != nil && !s.resultStream.taken {
		s.resultStream.endLocked(ErrNoReceiver)
	}
}

// isDiscardingLocked reports whether appended messages are discarded: the receiver is gone,
// or gets one JSON object that has begun.
func (s *Stream) isDiscardingLocked() bool { return s.lost || s.resultStream != nil }
