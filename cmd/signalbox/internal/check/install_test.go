// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import "testing"

func TestNpxFolder(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		"Cannot find package 'zod' imported from /home/me/.npm/_npx/15b07286cbcc3329/node_modules/@x/memory/dist/index.js":  "/home/me/.npm/_npx/15b07286cbcc3329",
		"Cannot find module 'ajv' | Require stack: | - /home/my self/.npm/_npx/a705c79b42eea4c8/node_modules/a/b.js | - /x": "/home/my self/.npm/_npx/a705c79b42eea4c8",
		`Cannot find module 'ajv' | - C:\Users\A B\AppData\Local\npm-cache\_npx\a705c79b42eea4c8\node_modules\a\b.js`:       `C:\Users\A B\AppData\Local\npm-cache\_npx\a705c79b42eea4c8`,
		"Cannot find module 'ajv' | - /srv/node_modules/a/b.js":                                                             "",
		"_npx/a705c79b42eea4c8/x": "",
	} {
		if got := npxFolder(reason); got != want {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
}
