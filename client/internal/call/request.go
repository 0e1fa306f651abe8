// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"encoding/binary"
	"hash/maphash"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// CanAsk reports whether a server may request input from a modern client during the
// method (2026-07-28, basic/patterns/mrtr, "Supported Requests").
func CanAsk(method string) bool {
	return method == MethodToolsCall || method == "prompts/get" || method == "resources/read"
}

// IsForwardable reports whether a request's result may be forwarded while it arrives. A
// request for a task returns a task, which the gateway must read.
func IsForwardable(req *mcp.Request) bool {
	return CanAsk(req.Method) && !req.Params.Has(mcp.FieldTask)
}

// WithEdit returns the request with the edit applied to its parameters.
func WithEdit(req *mcp.Request, e *mcp.Edit) (*mcp.Request, error) {
	params, err := e.Apply(&req.Params)
	if err != nil {
		return nil, err
	}
	own := *req
	own.Params = params
	return &own, nil
}

// WithoutTask returns the request without params.task.
func WithoutTask(req *mcp.Request) (*mcp.Request, error) {
	if !req.Params.Has(mcp.FieldTask) {
		return req, nil
	}
	var e mcp.Edit
	e.Delete(mcp.FieldTask)
	return WithEdit(req, &e)
}

// AboutTask returns a request on a task with the caller, scope and progress token of
// like.
func AboutTask(like *mcp.Request, method, id string) *mcp.Request {
	params := jsonscan.AppendString([]byte(`{"taskId":`), id)
	if token := like.Params.Raw(mcp.MetaProgressToken); token != nil {
		params = append(append(append(params, `,"_meta":{"progressToken":`...), token...), '}')
	}
	own := *like
	own.Method, own.ParamHeaders = method, nil
	own.Params, _ = mcp.ParseObject(append(params, '}')) // of a string and a value that was parsed before
	return &own
}

// TaskNoticeOf returns the notification of a task's status, with the task that a result
// contains, or nil if that is invalid.
func TaskNoticeOf(res *mcp.Result) *mcp.Notification {
	params, err := task.Notice(res.Bytes())
	if err != nil {
		return nil
	}
	n, err := mcp.NewNotification(listen.MethodTask, params)
	if err != nil {
		return nil
	}
	return n
}

// FindCall returns the open call with the id raw, or nil.
func FindCall(calls *session.Calls, raw []byte) *session.Call {
	id, err := mcp.ParseID(raw)
	if err != nil {
		return nil
	}
	return calls.Find(id)
}

// Numbers are the request ids of one connection, in an unpredictable order, so that a
// forged answer matches no pending call. They are a permutation, so that no id is used
// twice. They have 31 bits, because some servers parse ids as 32-bit integers, and ten
// digits.
type Numbers struct{ seed maphash.Seed }

// NewNumbers returns numbers with a random seed.
func NewNumbers() *Numbers { return &Numbers{maphash.MakeSeed()} }

const (
	halfID  = 15                // the number of bits in each half of an id
	firstID = 1 << (2 * halfID) // the smallest id
)

// ID returns the id of the n-th call.
func (s *Numbers) ID(n uint64) uint64 {
	l, r := n>>halfID&(1<<halfID-1), n&(1<<halfID-1)
	for round := range byte(4) {
		l, r = r, l^s.mix(round, r)
	}
	return firstID | l<<halfID | r
}

// Of returns the number of the call with the id, among the first 2^30 calls; 0 if none
// can have it.
func (s *Numbers) Of(id uint64) uint64 {
	if id < firstID || id >= 2*firstID {
		return 0
	}
	l, r := id>>halfID&(1<<halfID-1), id&(1<<halfID-1)
	for round := byte(4); round > 0; round-- {
		l, r = r^s.mix(round-1, l), l
	}
	return l<<halfID | r
}

// mix is the round function of the Feistel network.
func (s *Numbers) mix(round byte, half uint64) uint64 {
	var b [3]byte
	binary.LittleEndian.PutUint16(b[:], uint16(half))
	b[2] = round
	return maphash.Bytes(s.seed, b[:]) & (1<<halfID - 1)
}
