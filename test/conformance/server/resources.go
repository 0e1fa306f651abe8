// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/signalbox-mcp/signalbox/mux"
)

// resources returns two that never change, one that does, and any number by a template.
func resources() []mux.Item {
	return []mux.Item{
		mux.Resource{
			URI: "test://static-text", Name: "static-text", Description: "A text.", MIMEType: "text/plain", TTL: time.Hour,
			Read: hold(mux.TextContents("test://static-text", "text/plain", "This is the content of the static text resource.")),
		},
		mux.Resource{
			URI: "test://static-binary", Name: "static-binary", Description: "An image.", MIMEType: "image/png", TTL: time.Hour,
			Read: hold(mux.BlobContents("test://static-binary", "image/png", redDot())),
		},
		mux.Resource{
			URI: watchedURI, Name: "watched-resource", Description: "The time.", MIMEType: "text/plain",
			Read: func(context.Context, *mux.Call) ([]mux.Contents, error) {
				return []mux.Contents{mux.TextContents(watchedURI, "text/plain", time.Now().Format(time.RFC3339))}, nil
			},
		},
		mux.Template{
			URI: "test://template/{id}/data", Name: "template", Description: "Something for each id.", MIMEType: "application/json",
			Read: readTemplate,
		},
	}
}

// hold returns a function with constant contents.
func hold(c mux.Contents) func(context.Context, *mux.Call) ([]mux.Contents, error) {
	return mux.Always([]mux.Contents{c})
}

func readTemplate(_ context.Context, call *mux.Call) ([]mux.Contents, error) {
	id := call.Var("id")
	data := mux.MustJSON(map[string]any{"id": id, "templateTest": true, "data": "Data for ID: " + id})
	return []mux.Contents{mux.TextContents(call.URI(), "application/json", string(data))}, nil
}
