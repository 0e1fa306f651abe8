# Copyright The Signalbox Authors.
# SPDX-License-Identifier: Apache-2.0

"""A server made with FastMCP, in both eras: over HTTP with --listen, else over
standard input and output. The first argument is the one resource template that is
its alone. FastMCP serves no subscriptions, in neither era, so nothing here changes."""

import sys
import warnings
from typing import Annotated

import anyio
import mcp_types as t
from fastmcp import Context, FastMCP
from fastmcp.server.dependencies import get_http_headers
from fastmcp.tools import ToolResult
from fastmcp_tasks import TasksExtension
from pydantic import Field

import offers


def new_server(board: str) -> FastMCP:
    server = FastMCP("server-fastmcp", version="1.0.0", list_page_size=offers.PAGE_SIZE)
    add_tools(server)
    add_asks(server)
    add_shapes(server)
    add_tasks(server)
    add_content(server, board)
    return server


def add_tools(server: FastMCP):
    watch = offers.Watch()

    @server.tool(output_schema=None)
    async def echo(text: str) -> str:
        return "echo: " + text

    @server.tool(output_schema=None)
    async def steps(steps: int, ctx: Context) -> str:
        for step in range(1, steps + 1):
            await ctx.report_progress(step, steps)
            await anyio.sleep(offers.STEP_PAUSE_SECONDS)
        return f"{steps} steps"

    @server.tool(output_schema=None)
    async def log(text: str, ctx: Context) -> str:
        await ctx.info(text)
        return "logged"

    @server.tool(output_schema=None)
    async def block(key: str) -> str:
        return await watch.block(key)

    @server.tool(output_schema=None)
    async def witness(key: str, state: str) -> str:
        return await watch.witness(key, state)


def add_asks(server: FastMCP):
    def add(name: str, kinds: list[str]):
        @server.tool(name=name, output_schema=None)
        async def ask(ctx: Context) -> t.CallToolResult | t.InputRequiredResult:
            answer = await offers.ask(ctx.session, ctx.request_id, ctx.input_responses, kinds)
            return answer if isinstance(answer, t.InputRequiredResult) else answer.content[0].text

    for name, kinds in offers.ASKS.items():
        add(name, kinds)


def add_tasks(server: FastMCP):
    # In the legacy era, and for clients that know no tasks, it is a tool like others.
    server.add_extension(TasksExtension())

    @server.tool(output_schema=None, task=True)
    async def brew(text: str) -> str:
        await anyio.sleep(offers.STEP_PAUSE_SECONDS)
        return "brewed " + text


def add_shapes(server: FastMCP):
    """What is about the shape of a call and of its result."""

    @server.tool(output_schema=None)
    async def header(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
        return "header: " + get_http_headers(include_all=True).get("mcp-param-region", "none")

    @server.tool(output_schema=None)
    async def kinds() -> ToolResult:
        return ToolResult(content=offers.KINDS)

    @server.tool(output_schema=offers.DEPTH_SCHEMA)
    async def measure() -> ToolResult:
        said = offers.measured()
        return ToolResult(content=said.content, structured_content=said.structured_content)

    @server.tool(output_schema=None)
    async def keep(key: str, ctx: Context) -> t.CallToolResult | t.InputRequiredResult:
        answer = await offers.keep(ctx.session, ctx.request_id, ctx.input_responses, ctx.request_state, key)
        return answer if isinstance(answer, t.InputRequiredResult) else answer.content[0].text


def add_content(server: FastMCP, board: str):
    @server.resource("interop://greeting", mime_type="text/plain")
    def greeting() -> str:
        return offers.read("interop://greeting")

    @server.resource("interop://item/{id}", name="item", mime_type="text/plain")
    def item(id: str) -> str:
        return offers.read("interop://item/" + id)

    @server.resource(f"interop://{board}/{{id}}", name=board, mime_type="text/plain")
    def own(id: str) -> str:
        return offers.read(f"interop://{board}/{id}")

    @server.prompt
    def welcome(language: str) -> str:
        return f"Welcome the reader in {language}."

    @server.completion
    async def complete(ref, argument, context):
        return offers.candidates(ref, argument.value)


async def main(board: str, listen: bool):
    server = new_server(board)
    if not listen:
        await server.run_stdio_async(show_banner=False, log_level="ERROR")
        return
    await offers.serve(server.http_app(path="/mcp"))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    anyio.run(main, sys.argv[1], "--listen" in sys.argv)
