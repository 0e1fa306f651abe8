// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"errors"
	"slices"

	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/listen"
	"github.com/signalbox-mcp/signalbox/internal/tasks"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// taskNotice notifies of the state of a task (io.modelcontextprotocol/tasks, "Task
// Status Notifications").
const taskNotice = "notifications/tasks"

// taskStatus is the same of 2025-11-25, which both sides send.
const taskStatus = "notifications/tasks/status"

// topic is a resource or a task in the filter of a listen.
type topic struct {
	name string // at the client: a URI, or the id of a task
	own  string // at the backend

	backend string // the backend of a task; "" for a resource, which the catalog resolves
}

// backendOf returns the name of the backend that has the topic, or "".
func (t topic) backendOf(v *view) string {
	if t.backend != "" {
		return t.backend
	}
	if entry, ok := v.catalog.Resource(t.name); ok {
		return entry.BackendName
	}
	return ""
}

// resourceTopics returns the resources that are visible to the client.
func (g *Gateway) resourceTopics(ctx context.Context, req *mcp.Request, uris []string) []topic {
	var found []topic
	for _, uri := range uris {
		if f := g.find(ctx, req, lookup{kind: catalog.Resources, name: uri}); f.entry != nil {
			found = append(found, topic{name: uri, own: uri})
		}
	}
	return found
}

// taskTopics returns the tasks that belong to the client. Foreign ids count as one
// event, however many there are.
func (g *Gateway) taskTopics(ctx context.Context, req *mcp.Request, ids []string) []topic {
	var found []topic
	foreign := false
	for _, id := range ids {
		backend, own, ok := g.taskIDs.decode(id, req.Principal)
		if !ok {
			foreign = true
			continue
		}
		if _, ok := g.view.Load().backend(backend); ok {
			found = append(found, topic{name: id, own: own, backend: backend})
		}
	}
	if foreign {
		g.noteForeignTask(ctx, req)
	}
	return found
}

// topicNames returns the client's names of topics.
func topicNames(topics []topic) (uris, ids []string) {
	for _, t := range topics {
		if t.backend != "" {
			ids = append(ids, t.name)
		} else {
			uris = append(uris, t.name)
		}
	}
	return uris, ids
}

// backendFilter returns the topics by the backend's names. A task with two ids at the
// client, one of them sealed with an older key, is one task at the backend.
func backendFilter(topics []topic) listen.Filter {
	var f listen.Filter
	for _, t := range topics {
		if t.backend != "" {
			f.TaskIDs = append(f.TaskIDs, t.own)
		} else {
			f.URIs = append(f.URIs, t.own)
		}
	}
	f.TaskIDs = listen.Distinct(f.TaskIDs)
	return f
}

// aliasesOf returns one client's id of each task.
func aliasesOf(topics []topic) aliases {
	known := make(aliases)
	for _, t := range topics {
		if t.backend != "" {
			known[t.own] = t.name
		}
	}
	return known
}

// listenRequest returns a listen for the topics only: the catalog covers changes of
// lists.
func listenRequest(from *mcp.Request, topics []topic) (*mcp.Request, error) {
	raw, err := backendFilter(topics).Params()
	if err != nil {
		return nil, err
	}
	req, err := mcp.NewRequest("subscriptions/listen", raw)
	if err != nil {
		return nil, err
	}
	req.Client, req.Principal, req.Scope = from.Client, from.Principal, from.Scope
	return req, nil
}

// agreedTopics reads an acknowledgement. One without a filter agrees to all.
func agreedTopics(asked []topic, params *mcp.Object) map[topic]bool {
	agreedTo := listen.SetOf(backendFilter(asked).Agreed(params))
	agreed := make(map[topic]bool, len(asked))
	for _, t := range asked {
		if t.backend != "" && agreedTo.Tasks[t.own] || t.backend == "" && agreedTo.URIs[t.own] {
			agreed[t] = true
		}
	}
	return agreed
}

// sameTask returns the topics that are the same task as name: one for each id in the
// request.
func sameTask(asked []topic, name string) []topic {
	i := slices.IndexFunc(asked, func(t topic) bool { return t.backend != "" && t.name == name })
	if i < 0 {
		return nil
	}
	var all []topic
	for _, t := range asked {
		if t.backend == asked[i].backend && t.own == asked[i].own {
			all = append(all, t)
		}
	}
	return all
}

// fetchState fetches the state of a task from the backend and returns the notification
// of it. It returns nil without an error for a task that no longer exists or cannot be
// fetched: an error response to that effect is an answer, and all other errors may be
// temporary.
func (t topic) fetchState(ctx context.Context, l *backendListen) (*mcp.Notification, error) {
	req, err := mcp.NewRequest("tasks/get", relatedTask(t.own))
	if err != nil {
		return nil, err
	}
	from := l.sub.req
	req.Client, req.Principal, req.Scope = from.Client, from.Principal, from.Scope
	res, err := l.backend.serveParams(ctx, req, &req.Params, noCaller{}, aliases{t.own: t.name})
	switch {
	case errors.Is(err, &mcp.Error{Code: mcp.CodeInvalidParams}), errors.Is(err, &mcp.Error{Code: mcp.CodeMethodNotFound}):
		return nil, nil //nolint:nilnil // as documented
	case err != nil:
		return nil, err
	case res == nil:
		return nil, errNoState
	}
	params, err := tasks.Notice(res.Bytes())
	if err != nil {
		return nil, err
	}
	return mcp.NewNotification(taskNotice, params)
}

var errNoState = errors.New("the backend did not return the state of the task")
