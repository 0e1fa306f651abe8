// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/config"
)

// TestSecretIsNotPrinted tries all ways of the standard library to print a value, alone and
// inside other values.
func TestSecretIsNotPrinted(t *testing.T) {
	const text = "hunter2"
	type hidden struct{ s config.Secret }
	type shown struct{ S config.Secret }
	s := config.NewSecret(text)
	values := map[string]any{
		"secret": s, "pointer": &s, "field": shown{s}, "hidden field": hidden{s}, "pointer to hidden": &hidden{s},
		"list": []config.Secret{s}, "map": map[string]config.Secret{"a": s}, "key": map[config.Secret]int{s: 1},
	}
	var printed bytes.Buffer
	logs := slog.New(slog.NewTextHandler(&printed, nil))
	for name, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
			fmt.Fprintf(&printed, name+" "+verb+"\n", v)
		}
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		printed.Write(data)
		logs.Info("logged", slog.Any("value", v))
	}
	if got := strings.ToLower(printed.String()); strings.Contains(got, text) || strings.Contains(got, fmt.Sprintf("%x", text)) {
		t.Errorf("the secret is printed:\n%s", got)
	}
	for got, want := range map[string]string{
		s.String(): "[redacted]", s.GoString(): "[redacted]", s.LogValue().String(): "[redacted]", s.Reveal(): text,
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestSecretEqual(t *testing.T) {
	var zero config.Secret
	tests := []struct {
		a, b config.Secret
		want bool
	}{
		{zero, zero, true},
		{zero, config.NewSecret(""), true},
		{config.NewSecret("a"), config.NewSecret("a"), true},
		{config.NewSecret("a"), config.NewSecret("b"), false},
		{config.NewSecret("a"), zero, false},
	}
	for _, tt := range tests {
		if got := tt.a.Equal(tt.b); got != tt.want {
			t.Errorf("%q equal to %q = %t, want %t", tt.a.Reveal(), tt.b.Reveal(), got, tt.want)
		}
	}
	if !zero.IsZero() || config.NewSecret("a").IsZero() {
		t.Error("IsZero does not tell an empty secret from another")
	}
}
