module github.com/signalbox-mcp/signalbox/test/foreign

go 1.26.3
