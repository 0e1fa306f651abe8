// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package redact_test

import (
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/redact"
)

func TestIsSecretName(t *testing.T) {
	for name, want := range map[string]bool{
		"password": true, "userPassword": true, "PASSWORD": true, "pass_phrase": true, "db.pwd": true, "api_key": true, "apiKey": true,
		"X-Api-Key": true, "accessKeyId": true, "token": true, "authToken": true, "client-secret": true, "JWT": true, "Authorization": true,
		"sessionCookie": true, "credentials": true, "refresh token 2": true,
		"region": false, "key": false, "issueKey": false, "maxTokens": false, "tokenizer": false, "pageToken": false, "next_page_token": false,
		"compass": false, "secretary": true, "author": false, "passenger": false, "": false, "1": false,
	} {
		if got := redact.IsSecretName(name); got != want {
			t.Errorf("%q names a secret: %v, want %v", name, got, want)
		}
	}
}

// A variable is treated as a secret unless both its name and its value are ordinary:
// text removed by mistake is missing.
func TestOrdinaryVariables(t *testing.T) {
	for kv, secret := range map[string]bool{
		"NODE_ENV=production": false, "ROOT=/srv/projects": false, "HOME=~/projects": false, "DIR=./projects": false,
		"API=https://api.example/v1": false, "DEBUG=http,server": false, "MODE=read-only mode": false,
		"GITHUB_TOKEN=production": true, "SIGNING_KEY=/srv/projects": true, "DB_PASS=production": true, "PGPASSWORD=swordfish": true,
		"API=https://me:hunter22@api.example": true, "API=https://me@api.example": true, "HOOK=https://hooks.example/?t=hunter22": true,
		"GITHUB_PAT=production": true, "WHAT=ghp_1x2y3z4a": true, "NUMBER=31415926": true, "WHAT=horse+battery": true,
	} {
		r := redact.New(nil, []string{kv})
		if (r != nil) != secret {
			t.Errorf("%q is a secret: %v, want %v", kv, r != nil, secret)
		}
	}
}
