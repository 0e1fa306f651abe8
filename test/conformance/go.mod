module github.com/signalbox-mcp/signalbox/test/conformance

go 1.26.0

require (
	github.com/goccy/go-yaml v1.19.2
	github.com/signalbox-mcp/signalbox v0.0.0
)

require github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3 // indirect

replace github.com/signalbox-mcp/signalbox => ../..
