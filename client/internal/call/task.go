// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package call

import (
	"github.com/signalbox-mcp/signalbox/internal/jsonscan"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/internal/task"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// WithoutTask returns the request without params.task.
func WithoutTask(req *mcp.Request) (*mcp.Request, error) {
	if !req.Params.Has(mcp.FieldTask) {
		return req, nil
	}
	var e mcp.Edit
	e.Delete(mcp.FieldTask)
	return WithEdit(req, &e)
}

func WithEdit(req *mcp.Request, e *mcp.Edit) (*mcp.Request, error) {
	params, err := e.Apply(&req.Params)
	if err != nil {
		return nil, err
	}
	own := *req
	own.Params = params
	return &own, nil
}

// AboutTask returns a request on a task with the caller, scope and progress token of
// like.
func AboutTask(like *mcp.Request, method, id string) *mcp.Request {
	params := append(jsonscan.AppendString([]byte(`{"taskId":`), id), '}')
	obj, err := mcp.ParseObject(params)
	if err != nil {
		obj = mcp.Object{} // cannot happen: an object with one string
	}
	own := *like
	own.Method, own.Params, own.ParamHeaders = method, obj, nil
	if token := like.Params.Raw(mcp.MetaProgressToken); token != nil {
		var e mcp.Edit
		e.Set(mcp.MetaProgressToken, token)
		if with, err := e.Apply(&obj); err == nil {
			own.Params = with
		}
	}
	return &own
}

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
