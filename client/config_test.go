// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
)

// Each field of Config reaches the packages below.
func TestConfigIsComplete(t *testing.T) {
	above, below := reflect.TypeFor[Config](), reflect.TypeFor[call.Config]()
	for f := range above.Fields() {
		if _, ok := below.FieldByName(f.Name); !ok {
			t.Errorf("call.Config has no %s", f.Name)
		}
	}
	if above.NumField() != below.NumField() {
		t.Errorf("%d fields, and %d in call.Config", above.NumField(), below.NumField())
	}
	cfg := Config{}
	v := reflect.ValueOf(&cfg).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		switch f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(i) + 1)
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.Map:
			f.Set(reflect.MakeMap(f.Type()))
		case reflect.Func:
			f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { return nil }))
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		default: // set below
		}
	}
	cfg.Transport, cfg.Credentials = http.DefaultTransport, struct{ Credentials }{}
	passed := reflect.ValueOf(cfg.below())
	for f := range above.Fields() {
		if passed.FieldByName(f.Name).IsZero() {
			t.Errorf("%s is not passed on", f.Name)
		}
	}
}
