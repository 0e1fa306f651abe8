// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/faultyserver"
)

// following returns a listen for tasks.
func following(t *testing.T, filter string) *mcp.Request {
	t.Helper()
	return modernTask(t, "subscriptions/listen", `{"notifications":{`+filter+`}}`)
}

func taskState(members string) string {
	return `tasks {"taskId":"t1",` + members + `}`
}

func status(is string) string { return `"status":"` + is + `",` + modernTimes }

// Tasks of a 2025-11-25 server that sends no notifications are polled at the suggested
// interval. Each state is delivered once, the last one with the result, and polling
// stops then. A task that the server does not know is not acknowledged.
func TestTaskListenPolls(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newTaskServer()
		c := dialHTTP(t, s, client.Config{})
		ear := &recorder{}
		r := launch(t, c, following(t, `"taskIds":["t1","other","t1"]`), ear)
		synctest.Wait()
		want := []string{`subscriptions/acknowledged {"notifications":{"taskIds":["t1"]}}`}
		wantStrings(t, "told", ear.notifications(), want)
		time.Sleep(1700 * time.Millisecond)
		wantStrings(t, "told of a task at work", ear.notifications(), want)
		if n := s.Count("tasks/get"); n != 2+3 {
			t.Errorf("%d looks in 1.7 s at a task that suggests 0.5 s, want one each and 3", n)
		}
		s.end("completed", taskDone)
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		want = append(want, taskState(status("completed")+`,"result":{"content":[]}`))
		wantStrings(t, "told", ear.notifications(), want)
		n := s.Count("tasks/get")
		time.Sleep(time.Hour)
		if more := s.Count("tasks/get") - n; more != 0 {
			t.Errorf("%d looks at a task that has ended", more)
		}
		r.cancel()
		<-r.done
	})
}

// A status notification on any session's stream causes a poll at once.
func TestTaskListenReceivesStatus(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newTaskServer()
		say := make(chan string)
		s.On["GET"] = func(x *faultyserver.Exchange) {
			x.Begin()
			for {
				select {
				case line := <-say:
					x.Event("", line)
				case <-x.R.Context().Done():
					return
				}
			}
		}
		c := dialHTTP(t, s, client.Config{})
		ear := &recorder{}
		r := launch(t, c, following(t, `"taskIds":["t1"]`), ear)
		synctest.Wait()
		s.become("cancelled")
		say <- `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"other","status":"cancelled"}}`
		synctest.Wait()
		if n := len(ear.notifications()); n != 1 {
			t.Errorf("word of another task had %d things told", n-1)
		}
		say <- `{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"t1","status":"completed"}}`
		synctest.Wait()
		wantStrings(t, "told", ear.notifications(), []string{
			`subscriptions/acknowledged {"notifications":{"taskIds":["t1"]}}`, taskState(status("cancelled")),
		})
		r.cancel()
		<-r.done
	})
}

// The state that a task had reached before the listen is delivered too.
func TestTaskListenAfterTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newTaskServer()
		s.end("failed", `"error":{"code":-32050,"message":"no"}`)
		c := dialHTTP(t, s, client.Config{})
		ear := &recorder{}
		r := launch(t, c, following(t, `"toolsListChanged":true,"taskIds":["t1"]`), ear)
		synctest.Wait()
		wantStrings(t, "told", ear.notifications(), []string{
			`subscriptions/acknowledged {"notifications":{"taskIds":["t1"]}}`,
			taskState(status("failed") + `,"error":{"code":-32050,"message":"no"}`),
		})
		r.cancel()
		<-r.done
	})
}

// A client of 2025-11-25 gets its notifications from its session. The listen that the
// server edge makes for it acknowledges no task and polls none.
func TestTaskListenOfLegacyClient(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newTaskServer()
		c := dialHTTP(t, s, client.Config{})
		req := following(t, `"taskIds":["t1"]`)
		req.Client.Version = mcp.V20251125
		ear := &recorder{}
		r := launch(t, c, req, ear)
		synctest.Wait()
		wantStrings(t, "told", ear.notifications(), []string{`subscriptions/acknowledged {"notifications":{}}`})
		if n := s.Count("tasks/get"); n != 0 {
			t.Errorf("%d looks", n)
		}
		r.cancel()
		<-r.done
	})
}

// A server that cannot be reached has not refused.
func TestTaskListenUnreachable(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newTaskServer()
		s.On["tasks/get"] = func(x *faultyserver.Exchange) { x.Status(500, "text/plain", "no") }
		c := dialHTTP(t, s, client.Config{})
		ear := &recorder{}
		_, err := within(t, c, following(t, `"taskIds":["t1"]`), ear)
		wantFault(t, err, mcp.CodeBackendFailed, mcp.Unknown, "500")
		wantStrings(t, "told", ear.notifications(), nil)
	})
}

// The stream of a modern server is relayed unmodified. After a gap the state of each
// acknowledged task is polled and delivered.
func TestModernTaskListenAfterAGap(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		s := newModernTaskServer(`"status":"completed","result":{"n":1.0}`)
		breaks := make(chan struct{})
		s.On["subscriptions/listen"] = func(x *faultyserver.Exchange) {
			sub := `"_meta":{"io.modelcontextprotocol/subscriptionId":` + x.Msg.ID.String() + `}`
			x.Event("", `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"taskIds":["t1"]},`+sub+`}}`)
			if s.Count("subscriptions/listen") == 1 {
				x.Event("", `{"jsonrpc":"2.0","method":"notifications/tasks","params":{"taskId":"t1","status":"working","n":1.0,`+sub+`}}`)
				<-breaks
				x.Abort()
			}
			x.Hold()
		}
		c := dialHTTP(t, s, client.Config{})
		ear := &recorder{}
		r := launch(t, c, following(t, `"taskIds":["t1","t2"]`), ear)
		synctest.Wait()
		close(breaks)
		time.Sleep(time.Second)
		synctest.Wait()
		got := strings.Join(ear.notifications(), "\n")
		want := strings.Join([]string{
			`subscriptions/acknowledged {"notifications":{"taskIds":["t1"]},"_meta":{}}`,
			`tasks {"taskId":"t1","status":"working","n":1.0,"_meta":{}}`,
			taskState(modernTimes + `,"status":"completed","result":{"n":1.0}`),
		}, "\n")
		if got != want {
			t.Errorf("told:\n%s\nwant:\n%s", got, want)
		}
		r.cancel()
		<-r.done
	})
}
