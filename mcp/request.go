// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

// Request is one request on its way inwards, from the edge that received it to
// the Handler that answers it. It has no id: correlation is the business of the
// edges. The few notifications that a client sends (a changed list of roots,
// say) travel as Requests whose terminal is nothing.
//
// A Request is immutable once it is given away. A Handler that forwards it with
// other parameters makes a copy: req2 := *req.
type Request struct {
	// Method is the method's name of the modern era where both eras have the
	// thing: server/discover for initialize, subscriptions/listen for GET.
	Method string

	// Params are the parameters as they arrived, _meta included. The
	// metadata of the modern era may or may not stand in them; what counts is
	// Client, LogLevel and the other fields of the Request.
	Params Object

	// Client is what the sender says of itself. It is never nil at a Handler,
	// and is shared by the requests of a session.
	Client *Peer

	// LogLevel is the least severe log message that the sender wants with this
	// request.
	LogLevel LogLevel

	// Principal is who is calling, after authentication; "" is the one
	// anonymous principal of an endpoint that does not authenticate.
	Principal string

	// Scope is how long state may be kept for the sender: its session. It is
	// nil in the modern era, where a Handler may keep nothing beyond the request
	// but what belongs to the principal.
	Scope *Scope

	// TakesInputRequired says that the sender understands a result of type
	// input_required and retries by itself (2026-07-28, basic/patterns/mrtr).
	// Where it is false such a result must not be returned: ask the Caller.
	TakesInputRequired bool

	// ParamHeaders are the Mcp-Param-* headers that came with the request, by
	// canonical name, undecoded. nil means that the request came without a layer
	// of headers (stdio, or a legacy revision) and that there is nothing to hold
	// against the arguments (2026-07-28, basic/transports/streamable-http,
	// "Custom Headers from Tool Parameters").
	ParamHeaders map[string][]string

	// Memory bounds what is held of the answer. nil is no bound. A Handler that
	// receives answers from elsewhere calls Reserve for it.
	Memory Memory
}

// NewRequest makes a request out of its parameters' JSON text, which it keeps.
// No parameters are nil. Its Client says nothing of itself and is the request's
// own. It returns an error where Parse would.
func NewRequest(method string, params []byte) (*Request, error) {
	obj, err := parseObject(params, levelParams)
	if err != nil {
		return nil, err
	}
	return &Request{Method: method, Params: obj, Client: &Peer{}}, nil
}

// Notification is one message that has no answer, on its way outwards to the
// client. It is immutable once it is given away.
type Notification struct {
	Method string
	Params Object

	// Synthetic says that nobody has said this: who passes it on was out of touch, and
	// what it tells of may have happened meanwhile. It is for whoever can find out,
	// and is not on the wire.
	Synthetic bool
}

// NewNotification makes a notification out of its parameters' JSON text, which
// it keeps. No parameters are nil. It returns an error where Parse would.
func NewNotification(method string, params []byte) (*Notification, error) {
	obj, err := parseObject(params, levelParams)
	if err != nil {
		return nil, err
	}
	return &Notification{Method: method, Params: obj}, nil
}

// AppendTo appends the notification to dst as a message, with its params as e makes them;
// nil changes nothing.
func (n *Notification) AppendTo(dst []byte, e *Edit) []byte {
	params := n.Params.Bytes()
	if e != nil && !e.IsZero() {
		params = e.AppendTo(nil, &n.Params)
	}
	return AppendBeside(AppendNotification(dst, n.Method, params), n.Params.Beside())
}

// Peer is what one end of a connection says of itself. It is not verified by
// anything; it is for display and for what the protocol lets depend on it, and
// never for a decision about security. A Peer is immutable.
type Peer struct {
	// Version is the revision that the peer speaks.
	Version Version
	// Info is its Implementation object, or nil where it did not say.
	Info []byte
	// Capabilities is its capabilities object; nil counts as {}.
	Capabilities []byte
}

// Result is what a request ends with when it succeeds: a JSON object, as the
// bytes that arrived and where its members stand. It is immutable once it is
// given away, because it may be answered to many at once.
type Result struct {
	Object

	delivered bool
}

// IsDelivered reports whether the client has had the result while it arrived: then
// there is nothing left to be given to it, and of the members only isError is known.
func (r *Result) IsDelivered() bool { return r.delivered }

// NewResult makes a result out of an object's JSON text, which it keeps. No bytes
// are a result without members. The error is that of [ParseObject].
func NewResult(raw []byte) (*Result, error) {
	obj, err := ParseObject(raw)
	if err != nil {
		return nil, err
	}
	return &Result{Object: obj}, nil
}

// The values of resultType (2026-07-28, basic, "ResultType"). A result without
// the member is complete.
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
	ResultTask          = "task" // of the extension io.modelcontextprotocol/tasks
)

// Type returns the result's resultType; an absent one is [ResultComplete]. One
// that is no string is returned as its JSON text, which no type is.
func (r *Result) Type() string {
	raw := r.Raw(FieldResultType)
	switch string(raw) {
	case "", `"complete"`: // nearly all, and so no text is made
		return ResultComplete
	}
	if t, ok := decodeText(raw); ok {
		return t
	}
	return string(raw)
}
