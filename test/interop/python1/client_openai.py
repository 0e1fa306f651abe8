# Copyright The Signalbox Authors.
# SPDX-License-Identifier: Apache-2.0

"""The MCP client of openai-agents, without a model."""

from contextlib import asynccontextmanager

from agents.mcp import MCPServerStdio, MCPServerStreamableHttp

import jobs


class Session:
    def __init__(self, server):
        self._server, self.version = server, server.server_initialize_result.protocolVersion
        self.instructions = server.server_initialize_result.instructions

    async def tools(self):
        return [tool.name for tool in await self._server.list_tools()]

    async def resources(self):
        page = await self._server.list_resources()
        return [str(resource.uri) for resource in page.resources]

    async def templates(self):
        page = await self._server.list_resource_templates()
        return [template.uriTemplate for template in page.resourceTemplates]

    async def prompts(self):
        return [prompt.name for prompt in (await self._server.list_prompts()).prompts]

    async def call(self, name, arguments):
        result = await self._server.call_tool(name, arguments)
        if result.isError:
            raise AssertionError(f"tool error: {jobs.text_of(result.content)}")
        return jobs.text_of(result.content)

    async def read(self, uri):
        return jobs.text_of((await self._server.read_resource(uri)).contents)

    async def get(self, name, arguments):
        result = await self._server.get_prompt(name, arguments)
        return jobs.text_of(message.content for message in result.messages)


@asynccontextmanager
async def connect(target):
    limit = {"client_session_timeout_seconds": jobs.LIMIT_SECONDS}
    if url := target.get("url"):
        server = MCPServerStreamableHttp({"url": url, "timeout": jobs.LIMIT_SECONDS, "headers": jobs.headers_of(target)}, **limit)
    else:
        server = MCPServerStdio({"command": target["command"], "args": target.get("args", [])}, **limit)
    async with server:
        yield Session(server)


if __name__ == "__main__":
    jobs.main(connect)
