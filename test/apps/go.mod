module github.com/signalbox-mcp/signalbox/test/apps

go 1.26.3

require (
	github.com/signalbox-mcp/signalbox v0.0.0
	github.com/signalbox-mcp/signalbox/test/foreign v0.0.0
)

replace (
	github.com/signalbox-mcp/signalbox => ../..
	github.com/signalbox-mcp/signalbox/test/foreign => ../foreign
)
