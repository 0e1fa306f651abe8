# Copyright The Signalbox Authors.
# SPDX-License-Identifier: Apache-2.0

"""A server made with the Python SDK `mcp`, in both eras: over HTTP with --listen,
else over standard input and output. The first argument is the one resource
template that is its alone."""

import sys
import warnings

import anyio
import mcp_types as t
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler

import offers
from offers import text

STRING = {"type": "string"}


def takes(**properties) -> dict:
    required = [name for name, schema in properties.items() if schema is not OPTIONAL]
    return {"type": "object", "properties": properties, "required": required}


OPTIONAL = {"type": "boolean"}

INPUTS = {
    "block": takes(key=STRING),
    "change": takes(name=STRING, remove=OPTIONAL),
    "echo": takes(text=STRING),
    "elicit": takes(),
    "header": takes(region={"type": "string", "x-mcp-header": "Region"}),
    "keep": takes(key=STRING),
    "kinds": takes(),
    "log": takes(text=STRING),
    "measure": takes(),
    "roots": takes(),
    "sample": takes(),
    "several": takes(),
    "steps": takes(steps={"type": "integer"}),
    "touch": takes(uri=STRING),
    "use": takes(),
    "visit": takes(),
    "witness": takes(key=STRING, state=STRING),
}


OUTPUTS = {"measure": offers.DEPTH_SCHEMA}


def described(name: str) -> t.Tool:
    return t.Tool(name=name, input_schema=INPUTS.get(name, INPUTS["echo"]), output_schema=OUTPUTS.get(name))


class Tools:
    """The tools, by name, and what changes them."""

    def __init__(self, audience: offers.Audience):
        self.names = sorted(INPUTS)
        self._watch = offers.Watch()
        self._audience = audience

    async def list(self, ctx, params):
        self._audience.note(ctx.session)
        start = int(params.cursor) if params and params.cursor else 0
        end = start + offers.PAGE_SIZE
        page = [described(name) for name in self.names[start:end]]
        return t.ListToolsResult(tools=page, next_cursor=str(end) if end < len(self.names) else None)

    async def call(self, ctx, params):
        self._audience.note(ctx.session)
        args = params.arguments or {}
        match params.name:
            case "block":
                return text(await self._watch.block(args["key"]))
            case "witness":
                return text(await self._watch.witness(args["key"], args["state"]))
            case "change":
                return await self._change(args["name"], args.get("remove", False))
            case "touch":
                await self._audience.updated(args["uri"])
                return text("touched")
            case "steps":
                return text(await offers.steps(ctx.session, ctx.meta, args["steps"]))
            case "log":
                await ctx.session.send_log_message("info", args["text"], related_request_id=ctx.request_id)
                return text("logged")
            case "header":
                return text("header: " + ctx.request.headers.get("mcp-param-region", "none"))
            case "kinds":
                return t.CallToolResult(content=offers.KINDS)
            case "measure":
                return offers.measured()
            case "keep":
                return await offers.keep(
                    ctx.session, ctx.request_id, params.input_responses, params.request_state, args["key"]
                )
            case name if name in offers.ASKS:
                return await offers.ask(ctx.session, ctx.request_id, params.input_responses, offers.ASKS[name])
        return text("echo: " + args["text"])

    async def _change(self, name: str, remove: bool):
        if remove:
            self.names.remove(name)
        else:
            self.names.append(name)
        await self._audience.tools_changed()
        return text("removed" if remove else "added")


def new_server(board: str) -> Server:
    bus = InMemorySubscriptionBus()
    audience = offers.Audience(bus)
    tools = Tools(audience)

    async def list_resources(ctx, params):
        return t.ListResourcesResult(
            resources=[t.Resource(uri="interop://greeting", name="greeting", mime_type="text/plain")]
        )

    async def list_templates(ctx, params):
        kinds = {"item": "interop://item/{id}", board: f"interop://{board}/{{id}}"}
        return t.ListResourceTemplatesResult(
            resource_templates=[t.ResourceTemplate(uri_template=uri, name=name) for name, uri in kinds.items()]
        )

    async def read_resource(ctx, params):
        uri = str(params.uri)
        return t.ReadResourceResult(contents=[t.TextResourceContents(uri=uri, text=offers.read(uri))])

    async def list_prompts(ctx, params):
        language = t.PromptArgument(name="language", required=True)
        return t.ListPromptsResult(prompts=[t.Prompt(name="welcome", arguments=[language])])

    async def get_prompt(ctx, params):
        said = t.TextContent(text=f"Welcome the reader in {params.arguments['language']}.")
        return t.GetPromptResult(messages=[t.PromptMessage(role="user", content=said)])

    async def complete(ctx, params):
        values = offers.candidates(params.ref, params.argument.value)
        return t.CompleteResult(completion=t.Completion(values=values, total=len(values)))

    async def subscribe(ctx, params):
        audience.subscribe(ctx.session, str(params.uri))
        return t.EmptyResult()

    async def unsubscribe(ctx, params):
        audience.unsubscribe(ctx.session, str(params.uri))
        return t.EmptyResult()

    async def set_level(ctx, params):
        return t.EmptyResult()

    return Server(
        "server-mcp",
        version="1.0.0",
        on_list_tools=tools.list,
        on_call_tool=tools.call,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
        on_subscribe_resource=subscribe,
        on_unsubscribe_resource=unsubscribe,
        on_subscriptions_listen=ListenHandler(bus),
        on_set_logging_level=set_level,
    )


async def serve_stdio(server: Server):
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))
    async with stdio_server() as (read, write):
        await server.run(read, write, options)


async def main(board: str, listen: bool):
    server = new_server(board)
    await (offers.serve(server.streamable_http_app()) if listen else serve_stdio(server))


if __name__ == "__main__":
    # What an era has no longer, the other still needs.
    warnings.simplefilter("ignore")
    anyio.run(main, sys.argv[1], "--listen" in sys.argv)
