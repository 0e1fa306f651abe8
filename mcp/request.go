// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import "github.com/signalbox-mcp/signalbox/internal/jsonscan"

// A Request is one request on its way inwards, from the edge that received it to the
// Handler that answers it. It has no id: the edges correlate requests and answers. The
// few notifications that a client sends (such as a changed list of roots) travel as
// Requests without a terminal.
//
// A Request is immutable once it has been passed on. A Handler that forwards it with
// other parameters makes a copy: req2 := *req.
type Request struct {
	// Method is the modern method name where both eras have an equivalent:
	// server/discover for initialize, subscriptions/listen for GET.
	Method string

	// Params are the parameters as they arrived, including _meta. They may or may not
	// contain the metadata of the modern era; Client, LogLevel and the other fields of
	// the Request are authoritative.
	Params Object

	// Client is the sender's description of itself. It is never nil at a Handler and is
	// shared by the requests of a session.
	Client *Peer

	// LogLevel is the least severe level of log message that the sender wants with this
	// request.
	LogLevel LogLevel

	// Principal is the authenticated sender; "" is the single anonymous principal of an
	// endpoint without authentication.
	Principal string

	// Identity is what authentication found about the sender of this request, or nil: for
	// an endpoint without authentication, and for a request that no message of the sender
	// has caused. If set, its Principal is that of the request.
	Identity *Identity

	// Profile is the part of the Handler that the request was sent to, or "" for all of it.
	// A Handler without parts ignores it. One that passes the request on to another Handler
	// removes it, unless they have the same parts.
	Profile string

	// Outer are the calls that the request is made for, the outermost one first, or nil for a
	// request that a client has sent. Nothing on the wire sets it.
	Outer []OuterCall

	// Scope is how long state may be kept for the sender: its session. It is nil in the
	// modern era, where a Handler may keep only state that belongs to the principal.
	Scope *Scope

	// TakesInputRequired reports that the sender understands a result of type
	// input_required and retries by itself (2026-07-28, basic/patterns/mrtr). If it is
	// false, such a result must not be returned: use Caller.Ask instead.
	TakesInputRequired bool

	// Resumed is the input of a sender that was asked with Result.Resume, or nil. The
	// requestState and the input are not in Params any more.
	Resumed *Resumed

	// Passed reports that both ends have agreed to the method, or may have: it is of an
	// extension that neither the edges nor the Handlers between them know. Its parameters
	// and its answer stay as they are. Such a request may be a notification.
	Passed bool

	// ParamHeaders are the Mcp-Param-* headers of the request, by canonical name,
	// undecoded. With a method of no revision they include Mcp-Name. nil means that the
	// transport has no headers (stdio, or a legacy revision), so that there is nothing to
	// compare with the arguments (2026-07-28, basic/transports/streamable-http, "Custom
	// Headers from Tool Parameters").
	ParamHeaders map[string][]string

	// Memory bounds the memory that the answer may occupy; nil means no bound. A
	// Handler that receives answers from elsewhere calls Reserve.
	Memory Memory

	// Timeline records what becomes of the request; nil means that nothing is recorded.
	// A Handler that forwards the request marks the stages that it knows of.
	Timeline *Timeline
}

// OuterCall is a call that makes requests of its own.
type OuterCall struct {
	Name string // of the tool
	Call CallID
}

// Resumed is what a sender has returned to a [Result] with Resume.
type Resumed struct {
	State   []byte             // the Resume of that result
	Answers map[string]*Result // by the keys of inputRequests
	Rounds  int                // how often the sender was asked with Resume for this request
}

// Owner returns a text that identifies the sender of the request: its principal and its
// profile. What is kept for a request belongs to its owner. Without a profile it is the
// principal.
func (r *Request) Owner() string {
	if r.Profile == "" {
		return r.Principal
	}
	return r.Principal + "\x00" + r.Profile // a profile has no control characters
}

// NewRequest returns a request with the given JSON text as its parameters. It keeps
// params; empty params mean none. Its Client is an empty Peer of its own. It returns an
// error where Parse would.
func NewRequest(method string, params []byte) (*Request, error) {
	obj, err := parseObject(params, jsonscan.LevelParams)
	if err != nil {
		return nil, err
	}
	return &Request{Method: method, Params: obj, Client: &Peer{}}, nil
}

// A Notification is a message without an answer on its way outwards to the client. It
// is immutable once it has been passed on.
type Notification struct {
	Method string
	Params Object

	// Synthetic reports that no peer sent this notification. It was made after a gap in
	// a stream, during which the change that it announces may have happened. It is for
	// Handlers that can find out, and is not on the wire.
	Synthetic bool
}

// NewNotification returns a notification with the given JSON text as its parameters. It
// keeps params; empty params mean none. It returns an error where Parse would.
func NewNotification(method string, params []byte) (*Notification, error) {
	obj, err := parseObject(params, jsonscan.LevelParams)
	if err != nil {
		return nil, err
	}
	return &Notification{Method: method, Params: obj}, nil
}

// AppendTo appends the notification to dst as a message, with its params changed by e.
// A nil e changes nothing.
func (n *Notification) AppendTo(dst []byte, e *Edit) []byte {
	params := n.Params.Bytes()
	if e != nil && !e.IsZero() {
		params = e.AppendTo(nil, &n.Params)
	}
	return jsonscan.AppendBeside(jsonscan.AppendNotification(dst, n.Method, params), n.Params.Beside())
}

// A Peer is the description that one end of a connection gives of itself. It is
// unverified: use it for display and where the protocol depends on it, and never for a
// security decision. A Peer is immutable.
type Peer struct {
	// Version is the protocol revision of the peer.
	Version Version
	// Info is its Implementation object, or nil if it sent none.
	Info []byte
	// Capabilities is its capabilities object; nil counts as {}.
	Capabilities []byte
	// PassesExtensions reports that all extensions that the peer declares are shown to
	// the other end, also those that nothing between them knows.
	PassesExtensions bool
}

// A Result is the result of a successful request: a JSON object, as the bytes that
// arrived and the positions of its members. It is immutable once it has been passed on,
// because several requests may share it.
type Result struct {
	Object

	// Resume is not nil for a result of type input_required of a Handler that keeps nothing
	// for the request, and has not begun it. The edge puts it into a requestState that only
	// this sender can use, and only to repeat this request; the Handler receives it in
	// Request.Resumed. The object of the result must have inputRequests, and no
	// requestState.
	Resume []byte

	// PassesExtensions, of a result of server/discover, reports that the Handler passes on
	// what it does not know: methods, and notifications of clients with a session. So all
	// extensions in the capabilities are declared to the client.
	PassesExtensions bool

	// Delivered reports that the client received the result while it arrived. Then
	// there is nothing left to send, and isError is the only member that is known.
	Delivered bool
}

// NewResult returns a result with the given JSON text, which it keeps. Empty text is a
// result without members. The error is the one that [ParseObject] returns.
func NewResult(raw []byte) (*Result, error) {
	obj, err := ParseObject(raw)
	if err != nil {
		return nil, err
	}
	return &Result{Object: obj}, nil
}

// The values of resultType (2026-07-28, basic, "ResultType"). A result without the
// member is complete.
const (
	ResultComplete      = jsonscan.ResultComplete
	ResultInputRequired = "input_required"
	ResultTask          = "task" // of the extension io.modelcontextprotocol/tasks
)

// Type returns the resultType of the result; an absent one is [ResultComplete]. A value
// that is not a string is returned as its JSON text, which equals no type.
func (r *Result) Type() string {
	return jsonscan.ResultType(r.Raw(FieldResultType))
}
