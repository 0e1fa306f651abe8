# Copyright The Signalbox Authors.
# SPDX-License-Identifier: Apache-2.0

"""The client of the Python SDK, which signs in by itself. See clients_test.go."""

import asyncio
import json
import sys
import traceback
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata

JOB = json.loads(sys.argv[1])


def say(message):
    print(json.dumps(message), flush=True)


class Memory:
    """Forgets everything at the end of the process."""

    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        if self.client is None and "client" in JOB:
            return OAuthClientInformationFull(
                client_id=JOB["client"], redirect_uris=[JOB["redirect"]], token_endpoint_auth_method="none"
            )
        return self.client

    async def set_client_info(self, client):
        self.client = client


async def open_page(address):
    say({"open": address})


async def callback():
    line = await asyncio.to_thread(sys.stdin.readline)
    if not line:
        raise RuntimeError("nobody is there to sign in")
    answer = parse_qs(urlsplit(line.strip()).query)
    first = {name: values[0] for name, values in answer.items()}
    return AuthorizationCodeResult(code=first.get("code", ""), state=first.get("state"), iss=first.get("iss"))


async def play(report):
    provider = OAuthClientProvider(
        JOB["url"],
        OAuthClientMetadata(client_name="identity test", redirect_uris=[JOB["redirect"]], token_endpoint_auth_method="none"),
        Memory(),
        open_page,
        callback,
    )
    mode = "auto" if JOB["version"] >= "2026" else "legacy"
    async with httpx2.AsyncClient(auth=provider, timeout=30) as http:
        async with Client(streamable_http_client(JOB["url"], http_client=http), mode=mode) as client:
            report["version"] = client.protocol_version
            report["tools"] = [tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools]
            for call in JOB.get("calls") or []:
                result = await client.call_tool(call["name"], call.get("arguments") or {})
                text = result.content[0].text if result.content else ""
                report["calls"].append({"text": text, "failed": bool(result.is_error)})


async def main():
    report = {"calls": []}
    try:
        await play(report)
    except BaseException:  # also a group of exceptions
        report["error"] = traceback.format_exc()
    say({"report": report})


asyncio.run(main())
