// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"strings"
	"testing"
)

// Of a stack trace, the errors of calls have the error that it is about.
func TestWithoutTraces(t *testing.T) {
	for name, tt := range map[string]struct{ lines, want string }{
		"python": {`starting
Traceback (most recent call last):
  File "/app/server.py", line 12, in <module>
    main()
    ~~~~^^
  File "/app/server.py", line 8, in main
    raise KeyError("API_KEY")
KeyError: 'API_KEY'`, "starting\nKeyError: 'API_KEY'"},
		"its beginning is lost": {`    return run(main)
           ~~~^^^^^^
  File "/usr/lib/python3.13/asyncio/runners.py", line 195, in run
    return runner.run(main)
ValueError: bad`, "ValueError: bad"},
		"chained": {`Traceback (most recent call last):
  File "a.py", line 2, in <module>
    f()
FileNotFoundError: [Errno 2] No such file or directory: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 4, in <module>
    g()
RuntimeError: no settings`, "FileNotFoundError: [Errno 2] No such file or directory: 'x'\nRuntimeError: no settings"},
		"message of several lines": {`Traceback (most recent call last):
  File "a.py", line 2, in <module>
    Settings()
pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings
api_key
  Field required [type=missing, input_value={}, input_type=dict]`,
			"pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings\napi_key\n  Field required [type=missing, input_value={}, input_type=dict]"},
		"group": {`  + Exception Group Traceback (most recent call last):
  |   File "a.py", line 5, in <module>
  |     anyio.run(main)
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "a.py", line 3, in main
    |     raise OSError("port is in use")
    | OSError: port is in use
    +------------------------------------`, "ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\nOSError: port is in use"},
		"node": {`/app/x.js:3
throw new Error("no token")
^
Error: no token
    at Object.<anonymous> (/app/x.js:3:7)
    at Module._compile (node:internal/modules/cjs/loader:1554:14)
Node.js v22.14.0`, "/app/x.js:3\nthrow new Error(\"no token\")\n^\nError: no token"},
		"indented text": {"usage: server\n  --port N", "usage: server\n  --port N"},
		"only frames":   {"  File \"a.py\", line 3, in f\n    g()", "  File \"a.py\", line 3, in f\n    g()"},
		"nothing":       {"", ""},
	} {
		if got := strings.Join(withoutTraces(strings.Split(tt.lines, "\n")), "\n"); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, tt.want)
		}
	}
}
