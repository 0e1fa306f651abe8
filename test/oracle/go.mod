module github.com/signalbox-mcp/signalbox/test/oracle

go 1.26.3

require (
	github.com/google/go-cmp v0.7.0
	github.com/modelcontextprotocol/go-sdk v1.8.0
	github.com/signalbox-mcp/signalbox v0.0.0
	golang.org/x/oauth2 v0.38.0
)

require (
	github.com/go-jose/go-jose/v4 v4.1.9 // indirect
	github.com/go-json-experiment/json v0.0.0-20260820222146-c27c302e5fc3 // indirect
	github.com/segmentio/asm v1.1.3 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/signalbox-mcp/signalbox => ../..
