# Copyright The Signalbox Authors.
# SPDX-License-Identifier: Apache-2.0

"""The client of version 1 of the Python SDK `mcp`."""

from contextlib import asynccontextmanager

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

import jobs


class Session:
    def __init__(self, session, initialized):
        self._session, self.version = session, initialized.protocolVersion
        self.instructions = initialized.instructions

    async def tools(self):
        return await self._all(self._session.list_tools, lambda page: [x.name for x in page.tools])

    async def resources(self):
        return await self._all(self._session.list_resources, lambda page: [str(x.uri) for x in page.resources])

    async def templates(self):
        return await self._all(
            self._session.list_resource_templates, lambda page: [x.uriTemplate for x in page.resourceTemplates]
        )

    async def prompts(self):
        return await self._all(self._session.list_prompts, lambda page: [x.name for x in page.prompts])

    async def _all(self, fetch, pick):
        found, cursor = [], None
        while True:
            page = await fetch(cursor)
            found += pick(page)
            cursor = page.nextCursor
            if not cursor:
                return found

    async def call(self, name, arguments):
        result = await self._session.call_tool(name, arguments)
        if result.isError:
            raise AssertionError(f"tool error: {jobs.text_of(result.content)}")
        return jobs.text_of(result.content)

    async def read(self, uri):
        return jobs.text_of((await self._session.read_resource(uri)).contents)

    async def get(self, name, arguments):
        result = await self._session.get_prompt(name, arguments)
        return jobs.text_of(message.content for message in result.messages)


@asynccontextmanager
async def connect(target):
    if url := target.get("url"):
        transport = streamable_http_client(url, http_client=create_mcp_http_client(headers=jobs.headers_of(target)))
    else:
        transport = stdio_client(StdioServerParameters(command=target["command"], args=target.get("args", [])))
    async with transport as (read, write, *_), ClientSession(read, write) as session:
        yield Session(session, await session.initialize())


if __name__ == "__main__":
    jobs.main(connect)
