# Copyright The Signalbox Authors.
# SPDX-License-Identifier: Apache-2.0

"""What the servers made with Python offer, as far as it is the same for both:
the words of goserver, said with the types that both SDKs share."""

import asyncio
import base64
import os
import socket
import sys
import threading

import mcp_types as t
import uvicorn
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp.shared.subscriptions import ResourceUpdated, ToolsListChanged
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

# Less than the number of tools: whoever lists them must follow a cursor.
PAGE_SIZE = 4
# How long the tool witness waits for what it is asked about.
WITNESS_SECONDS = 60
# Parts the notices of progress from each other and from the result.
STEP_PAUSE_SECONDS = 0.05
# How long a session may take to be told of a change; one that is gone never is.
TELL_SECONDS = 5

LANGUAGES = ["norsk", "nynorsk", "suomi"]
ITEMS = ["41", "42"]

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

QUESTIONS = {
    "elicit": t.ElicitRequest(params=t.ElicitRequestFormParams(message="What is your name?", requested_schema=NAME)),
    "roots": t.ListRootsRequest(),
    "sample": t.CreateMessageRequest(
        params=t.CreateMessageRequestParams(
            max_tokens=100,
            messages=[t.SamplingMessage(role="user", content=t.TextContent(text="Name a number."))],
        )
    ),
    "use": t.CreateMessageRequest(
        params=t.CreateMessageRequestParams(
            max_tokens=100,
            messages=[t.SamplingMessage(role="user", content=t.TextContent(text="Where is north?"))],
            tools=[t.Tool(name="compass", input_schema={"type": "object"})],
        )
    ),
    "visit": t.ElicitRequest(
        params=t.ElicitRequestURLParams(
            message="Sign here.", url="https://example.com/sign", elicitation_id="sign-here"
        )
    ),
}

# The tools that ask, and what: each question by itself, and all at once.
ASKS = {
    "elicit": ["elicit"],
    "roots": ["roots"],
    "sample": ["sample"],
    "several": ["elicit", "roots", "sample"],
    "use": ["use"],
    "visit": ["visit"],
}

RESULT_TYPES = {
    "elicit": t.ElicitResult,
    "roots": t.ListRootsResult,
    "sample": t.CreateMessageResult,
    "use": t.CreateMessageResultWithTools,
    "visit": t.ElicitResult,
}

GREETING = "interop://greeting"
# One of each kind of content.
KINDS = [
    t.TextContent(text="text"),
    t.ImageContent(data=base64.b64encode(b"image").decode(), mime_type="image/png"),
    t.AudioContent(data=base64.b64encode(b"audio").decode(), mime_type="audio/wav"),
    t.EmbeddedResource(resource=t.TextResourceContents(uri=GREETING, mime_type="text/plain", text="hello")),
    t.ResourceLink(uri=GREETING, name="greeting"),
]
DEPTH_SCHEMA = {"type": "object", "properties": {"depth": {"type": "string"}}, "required": ["depth"]}


def text(said: str) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(text=said)])


def describe(answer) -> str:
    """The answer as text, which a client can compare with what it said."""
    match answer:
        case t.ElicitResult():
            return f"{answer.action}: {(answer.content or {}).get('name')}"
        case t.ListRootsResult(roots=[first, *_]):
            return f"first root: {first.uri}"
        case t.CreateMessageResult() | t.CreateMessageResultWithTools():
            said = answer.content_as_list[0] if hasattr(answer, "content_as_list") else answer.content
            return f"use: {said.name}" if isinstance(said, t.ToolUseContent) else said.text
    return f"unexpected answer {answer!r}"


def is_modern(session: ServerSession) -> bool:
    return session.protocol_version in MODERN_PROTOCOL_VERSIONS


async def ask(session: ServerSession, request_id, answers, kinds):
    """Asks the client for everything at once: in the modern era by a result, and
    with its answers the call comes again; in the legacy era by requests."""
    if not is_modern(session):
        told = [
            session.send_request(
                QUESTIONS[kind],
                RESULT_TYPES[kind],
                metadata=ServerMessageMetadata(related_request_id=request_id),
            )
            for kind in kinds
        ]
        return text("\n".join(map(describe, await asyncio.gather(*told))))
    if not all(kind in (answers or {}) for kind in kinds):
        return t.InputRequiredResult(input_requests={kind: QUESTIONS[kind] for kind in kinds})
    return text("\n".join(describe(answers[kind]) for kind in kinds))


async def keep(session: ServerSession, request_id, answers, state, key) -> t.CallToolResult | t.InputRequiredResult:
    """Forgets the key when it asks: what it returns with the answer is from the
    state that the client brought back. A legacy client is asked as ever."""
    if not is_modern(session):
        await ask(session, request_id, answers, ["elicit"])
        return text(f"state of {key}")
    if "elicit" in (answers or {}):
        return text(state or "no state")
    return t.InputRequiredResult(input_requests={"elicit": QUESTIONS["elicit"]}, request_state=f"state of {key}")


def measured() -> t.CallToolResult:
    """Beside the structured content is something else, so that neither is taken for
    the other."""
    return t.CallToolResult(
        content=[t.TextContent(text="measured")], structured_content={"depth": "nine fathoms"}
    )


class Watch:
    """Remembers of each call of the tool block that it started, and that its
    cancellation arrived."""

    def __init__(self):
        self._marks = {}

    def mark(self, key: str, state: str) -> asyncio.Event:
        return self._marks.setdefault((key, state), asyncio.Event())

    async def block(self, key: str):
        self.mark(key, "started").set()
        try:
            await asyncio.Event().wait()
        finally:
            self.mark(key, "cancelled").set()

    async def witness(self, key: str, state: str) -> str:
        try:
            await asyncio.wait_for(self.mark(key, state).wait(), WITNESS_SECONDS)
        except TimeoutError:
            raise RuntimeError(f"{key} was not {state}") from None
        return f"{key} {state}"


class Audience:
    """The receivers of change notices: in the modern era the listeners on the bus, in
    the legacy era every session that has sent a request."""

    def __init__(self, bus):
        self._bus = bus
        self._sessions = {}
        self._subscribed = {}

    def note(self, session: ServerSession):
        if not is_modern(session):
            # The SDK has one of these for each request, and all of a client have one connection.
            self._sessions[id(session._connection)] = session

    def subscribe(self, session: ServerSession, uri: str):
        self._subscribed.setdefault(uri, {})[id(session._connection)] = session

    def unsubscribe(self, session: ServerSession, uri: str):
        self._subscribed.get(uri, {}).pop(id(session._connection), None)

    async def tools_changed(self):
        await self._bus.publish(ToolsListChanged())
        await tell(self._sessions, lambda session: session.send_tool_list_changed())

    async def updated(self, uri: str):
        await self._bus.publish(ResourceUpdated(uri=uri))
        await tell(self._subscribed.get(uri, {}), lambda session: session.send_resource_updated(uri))


async def tell(sessions: dict, say):
    """Says something to all, and strikes from the list whom it does not reach."""

    async def one(key, session):
        try:
            await asyncio.wait_for(say(session), TELL_SECONDS)
        except Exception:
            sessions.pop(key, None)

    await asyncio.gather(*(one(key, session) for key, session in list(sessions.items())))


async def steps(session: ServerSession, meta, count: int) -> str:
    """Reports progress. A call without a token is an error, which is how a lost
    token shows."""
    if not meta or meta.get("progress_token") is None:
        raise RuntimeError("the call has no progress token")
    for step in range(1, count + 1):
        await session.report_progress(step, count)
        await asyncio.sleep(STEP_PAUSE_SECONDS)
    return f"{count} steps"


def read(uri: str) -> str:
    """The text of a resource: what the URI asks for is in it. One thing is never there."""
    kind, _, item = uri.removeprefix("interop://").partition("/")
    if item == "missing":
        raise MCPError(code=t.INVALID_PARAMS, message="Resource not found", data={"uri": uri})
    return f"{kind} {item}" if item else "hello"


def candidates(ref, value: str) -> list[str]:
    known = ITEMS if isinstance(ref, t.ResourceTemplateReference) else LANGUAGES
    return [c for c in known if c.startswith(value)]


async def serve(app):
    """Serves on a free port of loopback, prints it, and ends when its standard
    input does, so that it cannot outlive the test that started it."""
    listener = socket.create_server(("127.0.0.1", 0))
    # The process ends with its input: connections that clients keep open must not keep it alive.
    threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
    await uvicorn.Server(uvicorn.Config(app, log_level="error")).serve([listener])
