# Copyright The Signalbox Authors.
# SPDX-License-Identifier: Apache-2.0

"""The client of the Python SDK `mcp`: of each era, its newest version."""

import os
from contextlib import asynccontextmanager

import mcp_types as t
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

import features


class Session:
    def __init__(self, client, inbox, modern):
        self._client, self._modern, self._meta = client, modern, None
        self.version = client.protocol_version
        self.subscriptions = features.Subscriptions(client.session, inbox, modern)

    def capabilities(self):
        return self._client.server_capabilities

    def instructions(self):
        return self._client.instructions

    async def tools(self):
        return await self._all(self._client.list_tools, lambda page: [x.name for x in page.tools])

    async def resources(self):
        return await self._all(self._client.list_resources, lambda page: [str(x.uri) for x in page.resources])

    async def templates(self):
        return await self._all(
            self._client.list_resource_templates, lambda page: [x.uri_template for x in page.resource_templates]
        )

    async def prompts(self):
        return await self._all(self._client.list_prompts, lambda page: [x.name for x in page.prompts])

    async def _all(self, fetch, pick):
        # A list from the SDK's cache would say nothing about the server.
        return await features.all_pages(lambda cursor: fetch(cursor=cursor, cache_mode="bypass"), pick)

    async def call(self, name, arguments, progress):
        return await self._client.call_tool(name, arguments, progress_callback=progress, meta=self._meta)

    async def set_level(self, level):
        # In the modern era the level goes with each request.
        if self._modern:
            self._meta = {"io.modelcontextprotocol/logLevel": level}
        else:
            await self._client.session.set_logging_level(level)

    async def complete(self, ref, argument):
        return (await self._client.complete(ref, argument)).completion.values

    async def read(self, uri):
        return (await self._client.read_resource(uri, cache_mode="bypass")).contents

    async def get(self, name, arguments):
        return (await self._client.get_prompt(name, arguments)).messages


@asynccontextmanager
async def connect(job, inbox):
    modern, target, answers = job["era"] == "modern", job["target"], features.Answers(job)
    standalone = features.Standalone(modern)

    async def elicit(context, params):
        return answers.elicit(params)

    async def sample(context, params):
        return answers.sample(params)

    async def roots(context):
        return t.ListRootsResult(roots=answers.roots())

    async def log(params):
        inbox.log(params.data)

    with open(os.devnull, "w") as nowhere:
        async with Client(
            transport(target, standalone, nowhere),
            mode="auto" if modern else "legacy",
            elicitation_callback=elicit,
            sampling_callback=sample,
            sampling_capabilities=features.SAMPLING,
            list_roots_callback=roots,
            logging_callback=log,
            message_handler=inbox.message,
        ) as client:
            await standalone.opened()
            session = Session(client, inbox, modern)
            yield session
            await session.subscriptions.close()


def authorization(target):
    # The SDK's OAuthClientProvider makes one request at a time: a call would keep its own cancellation waiting.
    token = target.get("token")
    return {"Authorization": f"Bearer {token}"} if token else None


def transport(target, standalone, nowhere):
    if url := target.get("url"):
        return streamable_http_client(url, http_client=standalone.client(headers=authorization(target)))
    return stdio_client(StdioServerParameters(command=target["command"], args=target.get("args", [])), errlog=nowhere)


if __name__ == "__main__":
    features.main(connect)
