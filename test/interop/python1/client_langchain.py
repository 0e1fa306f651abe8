# Copyright The Signalbox Authors.
# SPDX-License-Identifier: Apache-2.0

"""The client of langchain-mcp-adapters, which opens a session for each thing that it does."""

from contextlib import asynccontextmanager

from langchain_mcp_adapters.client import MultiServerMCPClient

import jobs

NAME = "target"


class Session:
    # No session is open for long enough to have a version.
    version = None

    def __init__(self, client):
        self._client, self._tools = client, {}

    async def tools(self):
        self._tools = {tool.name: tool for tool in await self._client.get_tools()}
        return list(self._tools)

    async def call(self, name, arguments):
        if not self._tools:
            await self.tools()
        return jobs.text_of(Block(part) for part in await self._tools[name].ainvoke(arguments))


class Block:
    """A block of a tool's result: langchain makes a dictionary of it."""

    def __init__(self, part):
        self.text = part.get("text", "")


@asynccontextmanager
async def connect(target):
    if url := target.get("url"):
        connection = {"transport": "streamable_http", "url": url, "headers": jobs.headers_of(target)}
    else:
        connection = {"transport": "stdio", "command": target["command"], "args": target.get("args", [])}
    yield Session(MultiServerMCPClient({NAME: connection}))


if __name__ == "__main__":
    jobs.main(connect)
