# Copyright The Signalbox Authors.
# SPDX-License-Identifier: Apache-2.0

"""The client of FastMCP: of each era, its newest version."""

from contextlib import asynccontextmanager
from pathlib import Path
import os

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from fastmcp_tasks import call_tool_task

import features


class Session:
    def __init__(self, client, inbox, modern):
        self._client, self._modern = client, modern
        self.version = client.protocol_version
        self.subscriptions = features.Subscriptions(client.session, inbox, modern)

    def capabilities(self):
        return self._client.server_capabilities

    def instructions(self):
        return self._client.instructions

    async def tools(self):
        return [x.name for x in await self._client.list_tools()]

    async def resources(self):
        return [str(x.uri) for x in await self._client.list_resources()]

    async def templates(self):
        return [x.uri_template for x in await self._client.list_resource_templates()]

    async def prompts(self):
        return [x.name for x in await self._client.list_prompts()]

    async def call(self, name, arguments, progress):
        return await self._client.call_tool_mcp(name, arguments or {}, progress_handler=progress)

    async def task(self, name, arguments):
        task = await call_tool_task(self._client, name, arguments)
        return (await task.result()).content

    async def set_level(self, level):
        # In the modern era this client asks for every message with each request.
        if not self._modern:
            await self._client.set_logging_level(level)

    async def complete(self, ref, argument):
        return (await self._client.complete(ref, argument)).values

    async def read(self, uri):
        return await self._client.read_resource(uri)

    async def get(self, name, arguments):
        return (await self._client.get_prompt(name, arguments)).messages


@asynccontextmanager
async def connect(job, inbox):
    modern, answers = job["era"] == "modern", features.Answers(job)
    standalone = features.Standalone(modern)

    async def elicit(message, response_type, params, context):
        return answers.elicit(params)

    async def sample(messages, params, context):
        return answers.sample(params)

    async def log(message):
        inbox.log(message.data)

    async with Client(
        transport(job["target"], standalone),
        mode="auto" if modern else "legacy",
        elicitation_handler=elicit,
        sampling_handler=sample,
        sampling_capabilities=features.SAMPLING,
        roots=answers.roots(),
        log_handler=log,
        message_handler=inbox.message,
        init_timeout=features.LIMIT_SECONDS,
    ) as client:
        await standalone.opened()
        session = Session(client, inbox, modern)
        yield session
        await session.subscriptions.close()


def transport(target, standalone):
    if url := target.get("url"):
        return StreamableHttpTransport(url, auth=target.get("token"), httpx_client_factory=standalone.client)
    return StdioTransport(target["command"], target.get("args", []), keep_alive=False, log_file=Path(os.devnull))


if __name__ == "__main__":
    features.main(connect)
