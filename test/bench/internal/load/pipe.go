// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/canned"
	"github.com/signalbox-mcp/signalbox/test/bench/internal/wait"
)

// Pipe makes the same call repeatedly to a server on stdio. It must not be used
// concurrently.
type Pipe struct {
	in      io.Writer
	out     *bufio.Reader
	request *request
	answer  *answer
	id      int64
	digits  []byte
}

// NewPipe performs the handshake if the era has one, makes the call once and judges the
// result.
func NewPipe(in io.Writer, out io.Reader, era canned.Era, call Call, judge Judge) (*Pipe, error) {
	p := &Pipe{in: in, out: bufio.NewReaderSize(wait.NewReader(out), maxLine), id: FirstID}
	if era == canned.Legacy {
		if err := p.initialize(); err != nil {
			return nil, err
		}
	}
	p.request = withIDs([]byte(Body(era, call)+"\n"), 0)
	message, _, err := p.exchange()
	if err != nil {
		return nil, err
	}
	p.answer, err = learn(message, p.digits, judge)
	return p, err
}

// maxLine is the maximum length of a message on a pipe.
const maxLine = 16 << 20

func (p *Pipe) initialize() error {
	p.request = withIDs([]byte(Body(canned.Legacy, Call{
		Method: "initialize",
		Params: `"protocolVersion":"` + canned.LegacyVersion + `","capabilities":{},"clientInfo":{"name":"bench","version":"1"}`,
	})+"\n"), 0)
	if _, _, err := p.exchange(); err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	_, err := io.WriteString(p.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	return err
}

// exchange makes the request with the next id. The message is valid until the next call.
func (p *Pipe) exchange() (message []byte, progress int, err error) {
	p.id++
	p.digits = strconv.AppendInt(p.digits[:0], p.id, 10)
	if _, err := p.in.Write(p.request.with(p.digits)); err != nil {
		return nil, 0, err
	}
	for {
		line, err := p.out.ReadSlice('\n')
		if err != nil {
			return nil, progress, err
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		if !bytes.Contains(line[:min(len(line), methodWithin)], []byte(`"method":`)) {
			return line, progress, nil
		}
		switch {
		case bytes.Contains(line, []byte(`"notifications/progress"`)):
			progress++
		case !bytes.Contains(line, []byte(`/list_changed"`)): // the time limit of a gateway for learning its backends
			return nil, progress, errors.New("unexpected message")
		}
	}
}

// Call makes the call once more.
func (p *Pipe) Call(context.Context) (progress int, err error) {
	message, progress, err := p.exchange()
	if err != nil {
		return progress, err
	}
	return progress, p.answer.check(message, p.digits)
}
