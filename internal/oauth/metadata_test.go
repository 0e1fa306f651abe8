// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
)

// Metadata is read again each hour. Meanwhile, and for a day if that fails, the former is used.
func TestMetadata(t *testing.T) {
	as := newPeer(t)
	text, err := json.Marshal(metadata(as.URL))
	if err != nil {
		t.Fatal(err)
	}
	arrived, goOn := make(chan bool), make(chan int)
	as.handle(wellKnownServer, func(w http.ResponseWriter, _ *http.Request) {
		arrived <- true
		if status := <-goOn; status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
		writeJSON(w, http.StatusOK, text)
	})
	synctest.Test(t, func(t *testing.T) {
		m := oauth.NewMetadata(newClient(t, oauth.Config{Backend: "http://127.0.0.1:1/mcp"}), as.URL)
		get := func(ctx context.Context) <-chan error {
			got := make(chan error, 1)
			go func() { // ends with the request
				_, err := m.Get(ctx)
				got <- err
			}()
			return got
		}
		request := func(status int) error {
			err := get(t.Context())
			<-arrived
			goOn <- status
			return <-err
		}
		if err := request(500); err == nil {
			t.Error("got metadata that could not be read")
		}
		if err := <-get(t.Context()); err == nil { // without another request
			t.Error("got metadata after a failure")
		}
		time.Sleep(time.Minute)
		if err := request(200); err != nil {
			t.Error(err)
		}
		time.Sleep(59 * time.Minute)
		if err := <-get(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Minute)
		first := get(t.Context())
		<-arrived
		if err := <-get(t.Context()); err != nil { // while the request is on its way
			t.Error(err)
		}
		goOn <- 500
		if err := <-first; err != nil {
			t.Errorf("the former metadata was not used: %v", err)
		}
		time.Sleep(24 * time.Hour)
		if err := request(500); err == nil {
			t.Error("got metadata of the day before")
		}
		ended, end := context.WithCancel(t.Context())
		time.Sleep(time.Minute)
		first = get(ended)
		<-arrived
		second := get(ended) // waits for the first one
		end()
		goOn <- 500
		if err := errors.Join(<-first, <-second); !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
}
