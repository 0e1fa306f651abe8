# Copyright The Signalbox Authors.
# SPDX-License-Identifier: Apache-2.0

"""What each client is asked to do, in words that both Python SDKs understand. A
driver gives main a function that connects and yields a session; main reads a JSON
array of jobs from standard input and prints one JSON line per server and feature."""

import asyncio
import json
import sys
import time
import warnings
from contextlib import AsyncExitStack

import httpx2
import mcp_types as t
from mcp.client.subscriptions import listen
from mcp.shared.exceptions import MCPError

# A feature that has not worked after this time does not work; what is known not to
# has less.
LIMIT_SECONDS = 120
BRIEF_SECONDS = 5
CLOSE_SECONDS = 30
# The interval of retries with a server that does not report when it is ready.
POLL_SECONDS = 0.1
# How long a step of progress may be behind the result.
STEP_SECONDS = 5
# How many sessions there are at once.
SESSIONS = 4
PROGRESS_ATTEMPTS = 5
HEADER_ATTEMPTS = 5


class Inbox:
    """Keeps what a server sends unasked until a feature looks for it."""

    def __init__(self):
        self._logs = []
        self._updated = set()
        self._changes = {"tools": 0, "resources": 0}
        self._news = asyncio.Event()

    def _wake(self):
        self._news.set()
        self._news = asyncio.Event()

    def log(self, data):
        self._logs.append(json.dumps(data))
        self._wake()

    def changed(self, kind):
        self._changes[kind] += 1
        self._wake()

    def updated(self, uri):
        self._updated.add(str(uri))
        self._wake()

    async def message(self, message):
        """What the session has no other callback for."""
        match message:
            case t.ToolListChangedNotification():
                self.changed("tools")
            case t.ResourceListChangedNotification():
                self.changed("resources")
            case t.ResourceUpdatedNotification():
                self.updated(message.params.uri)

    def changes(self, kind):
        return self._changes[kind]

    def has_update(self, uri):
        return uri in self._updated

    def has_log(self, want):
        return any(want in said for said in self._logs)

    async def until(self, is_true):
        """Returns when is_true does; a limit on the whole feature ends it."""
        while not is_true():
            await self._news.wait()


# What the clients declare beyond what their SDK does by itself.
SAMPLING = t.SamplingCapability(tools=t.SamplingToolsCapability())


class Answers:
    """The client's answer to a question of a server; the test expects it."""

    def __init__(self, job):
        self._said = job["answers"]

    def elicit(self, params):
        if isinstance(params, t.ElicitRequestURLParams):
            return t.ElicitResult(action="accept")
        return t.ElicitResult(action="accept", content={"name": self._said["name"]})

    def sample(self, params):
        if params.tools:
            use = t.ToolUseContent(id="use-1", name=params.tools[0].name, input={})
            return t.CreateMessageResultWithTools(role="assistant", model="none", content=use, stop_reason="toolUse")
        return t.CreateMessageResult(role="assistant", model="none", content=t.TextContent(text=self._said["sample"]))

    def roots(self):
        return [t.Root(uri=self._said["root"], name="root")]


class Standalone:
    """An HTTP client that knows when the server has answered the GET of a legacy
    session, for only then can the server send what belongs to no request."""

    def __init__(self, modern: bool):
        self._modern = modern
        self._has_session = False
        self._opened = asyncio.Event()

    def client(self, headers=None, auth=None, timeout=None, **_):
        return httpx2.AsyncClient(
            headers=headers,
            auth=auth,
            timeout=httpx2.Timeout(LIMIT_SECONDS, read=None),
            event_hooks={"response": [self._note]},
        )

    async def _note(self, response):
        self._has_session |= "mcp-session-id" in response.headers
        if response.request.method == "GET":
            self._opened.set()

    async def opened(self):
        if self._has_session and not self._modern:
            await self._opened.wait()


class Subscriptions:
    """Subscribes as the era does; the same for both SDKs, which have the session of
    one of them below."""

    def __init__(self, session, inbox, modern):
        self._session, self._inbox, self._modern = session, inbox, modern
        self._open = AsyncExitStack()
        self._readers = []

    async def watch(self, kind):
        if self._modern:
            await self._listen(**{f"{kind}_list_changed": True})

    async def subscribe(self, uri):
        if self._modern:
            await self._listen(resource_subscriptions=[uri])
        else:
            await self._session.subscribe_resource(uri)

    async def unsubscribe(self, uri):
        if not self._modern:
            await self._session.unsubscribe_resource(uri)

    async def _listen(self, **kinds):
        # Notices come to the message handler too: what is read here is only thrown away.
        events = await self._open.enter_async_context(listen(self._session, **kinds))
        self._readers.append(asyncio.create_task(_drain(events)))

    async def close(self):
        for reader in self._readers:
            reader.cancel()
        await self._open.aclose()


async def _drain(events):
    async for _ in events:
        pass


async def all_pages(fetch, pick):
    found, cursor = [], None
    while True:
        page = await fetch(cursor)
        found += pick(page)
        cursor = page.next_cursor
        if not cursor:
            return found


def includes_all(got, wanted):
    missing = [want for want in wanted if want not in got]
    if missing:
        raise AssertionError(f"{missing} not in {got}")


def contains(got, want):
    if want not in got:
        raise AssertionError(f"got {got!r}, want {want!r} in it")


async def call_text(session, probe, progress=None):
    result = await session.call(probe["name"], probe.get("arguments"), progress)
    said = "\n".join(block.text for block in result.content if isinstance(block, t.TextContent))
    if result.is_error:
        raise AssertionError(f"tool error: {said}")
    return said


def listing(kind):
    async def run(session, inbox, want):
        includes_all(await getattr(session, kind)(), want)

    return run


async def call(session, inbox, want):
    while True:
        got = await call_text(session, want)
        if want["want"] in got:
            return
        if not want.get("eventually"):
            raise AssertionError(f"got {got!r}, want {want['want']!r} in it")
        await asyncio.sleep(POLL_SECONDS)


async def header(session, inbox, want):
    """Lists the tools first: of a tool that it has not listed, or whose list has
    changed since, a client does not know that an argument goes into a header. Others
    change the list at the same time."""
    for attempt in range(1, HEADER_ATTEMPTS + 1):
        await session.tools()
        try:
            return contains(await call_text(session, want), want["want"])
        except Exception:
            if attempt == HEADER_ATTEMPTS:
                raise


async def kinds(session, inbox, want):
    result = await session.call(want["name"], want.get("arguments"), None)
    contains(" ".join(block.type for block in result.content), want["want"])


async def structured(session, inbox, want):
    result = await session.call(want["name"], want.get("arguments"), None)
    contains(json.dumps(result.structured_content), want["want"])


async def errors(session, inbox, want):
    """Wants an error with one of the codes, whatever exception the SDK makes of it."""
    try:
        await session.read(want["uri"])
    except Exception as error:
        if (code := code_of(error)) not in want["codes"]:
            raise AssertionError(f"got code {code} of {reason(error)}, want one of {want['codes']}") from None
    else:
        raise AssertionError(f"read {want['uri']}, which is not there")


def code_of(error):
    while error is not None:
        if isinstance(error, MCPError):
            return error.error.code
        error = error.__cause__
    return None


async def caps(session, inbox, want):
    declared = session.capabilities()
    includes_all([name for name in want if getattr(declared, name) is not None], want)


async def instruct(session, inbox, want):
    contains(session.instructions() or "", want)


async def tasks(session, inbox, want):
    if not hasattr(session, "task"):
        raise AssertionError("the SDK has no tasks")
    content = await session.task(want["name"], want.get("arguments"))
    contains("\n".join(block.text for block in content), want["want"])


async def progress(session, inbox, want):
    """Expects every step, in order. Steps may be missing by chance: of those that a client
    has not read, the newest remains, and they are lost while a request is parked because
    the server has asked something."""
    every = list(range(1, want["steps"] + 1))
    for _ in range(PROGRESS_ATTEMPTS):
        seen, all_seen = [], asyncio.Event()

        async def note(step, total, message):
            if total:
                seen.append(step)
            if len(seen) == len(every):
                all_seen.set()

        contains(await call_text(session, want, note), want["want"])
        try:
            await asyncio.wait_for(all_seen.wait(), STEP_SECONDS)
        except TimeoutError:
            continue
        break
    if seen != every:
        raise AssertionError(f"got progress {seen}")


async def cancel(session, inbox, want):
    """Succeeds if the server reports that the cancellation arrived."""
    blocked = asyncio.create_task(call_text(session, want["block"]))
    contains(await call_text(session, want["started"]), want["started"]["want"])
    blocked.cancel()
    await asyncio.wait([blocked])
    if not blocked.cancelled():
        raise AssertionError("the cancelled call returned")
    contains(await call_text(session, want["cancelled"]), want["cancelled"]["want"])


async def log(session, inbox, want):
    await session.set_level("debug")
    await call_text(session, want)
    await inbox.until(lambda: inbox.has_log(want["want"]))
    if want.get("stop"):
        await call_text(session, want["stop"])


async def complete(session, inbox, want):
    for probe in want:
        ref = probe["ref"]
        if ref["type"] == "ref/prompt":
            reference = t.PromptReference(name=ref["name"])
        else:
            reference = t.ResourceTemplateReference(uri=ref["uri"])
        includes_all(await session.complete(reference, probe["argument"]), [probe["value"]])


async def read(session, inbox, want):
    for probe in want:
        contents = await session.read(probe["uri"])
        contains("\n".join(c.text for c in contents), probe["text"])


async def get(session, inbox, want):
    messages = await session.get(want["name"], want.get("arguments"))
    contains("\n".join(m.content.text for m in messages), want["want"])


async def changes(session, inbox, want):
    """Wants a notice for each change, and the change in the list that is fetched
    after a notice. Other clients of the same server cause notices, too."""
    kind = want["kind"]
    await session.subscriptions.watch(kind)
    for step, present in ((want["add"], True), (want.get("remove"), False)):
        if not step:
            continue
        seen = inbox.changes(kind)
        await call_text(session, step)
        while True:
            await inbox.until(lambda: inbox.changes(kind) > seen)
            seen = inbox.changes(kind)
            if (want["item"] in await getattr(session, kind)()) == present:
                break
        if present and (use := want.get("use")):
            contains(await call_text(session, use), use["want"])


async def updates(session, inbox, want):
    """Wants to hear of the one resource that it has subscribed to."""
    await session.subscriptions.subscribe(want["uri"])
    contains(await call_text(session, want["touch"]), want["touch"]["want"])
    await inbox.until(lambda: inbox.has_update(want["uri"]))
    if want["touch"].get("stop"):
        await call_text(session, want["touch"]["stop"])
    await session.subscriptions.unsubscribe(want["uri"])


FEATURES = {
    "tools": listing("tools"),
    "resources": listing("resources"),
    "templates": listing("templates"),
    "prompts": listing("prompts"),
    "call": call,
    "progress": progress,
    "cancel": cancel,
    "log": log,
    "complete": complete,
    "read": read,
    "get": get,
    "elicit": call,
    "sample": call,
    "roots": call,
    "several": call,
    "url": call,
    "use": call,
    "state": call,
    "header": header,
    "kinds": kinds,
    "structured": structured,
    "errors": errors,
    "caps": caps,
    "instruct": instruct,
    "tasks": tasks,
    "changes": changes,
    "updates": updates,
}


def reason(error) -> str:
    """The first cause: the SDKs end with groups of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


async def within(job, server, feature, limit, run):
    """Runs one feature with its limit and prints what came of it."""
    started = time.monotonic()
    line = {"job": job["id"], "server": server, "feature": feature, "ok": True}
    try:
        await asyncio.wait_for(run(), limit)
    except TimeoutError:
        line |= {"ok": False, "error": f"nothing after {limit} s"}
    except Exception as error:
        line |= {"ok": False, "error": reason(error)}
    line["ms"] = round((time.monotonic() - started) * 1000)
    print(json.dumps(line), flush=True)
    return line["ok"]


async def try_all(job, session, inbox):
    for server in job["servers"]:
        for feature, run in FEATURES.items():
            if want := server.get(feature):
                limit = BRIEF_SECONDS if feature in server.get("brief", []) else LIMIT_SECONDS
                await within(job, server["name"], feature, limit, lambda: run(session, inbox, want))


async def run_job(job, connect):
    inbox = Inbox()
    outcome = {"connected": False}

    # The SDKs want their connection closed by the task that has opened it, and what
    # ends a feature must not end that: hence the limit on the opening alone.
    async def whole(opened):
        async with connect(job, inbox) as session:
            if session.version != job["version"]:
                raise AssertionError(f"negotiated {session.version}, want {job['version']}")
            opened.set_result(session)
            await done.wait()

    done = asyncio.Event()
    opened = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(whole(opened))
    task.add_done_callback(lambda ended: opened.done() or opened.set_exception(failure(ended)))

    async def wait():
        outcome["session"] = await asyncio.shield(opened)

    if await within(job, "", "connect", LIMIT_SECONDS, wait):
        await try_all(job, outcome["session"], inbox)
        done.set()
        await within(job, "", "close", CLOSE_SECONDS, lambda: task)
    else:
        task.cancel()
        # The error of a failed connection is in the outcome above.
        await asyncio.wait([task], timeout=CLOSE_SECONDS)


def failure(task):
    if task.cancelled():
        return ConnectionError("given up")
    return task.exception() or ConnectionError("closed at once")


async def run_all(connect):
    jobs = iter(json.load(sys.stdin))

    async def work():
        for job in jobs:
            await run_job(job, connect)

    await asyncio.gather(*(work() for _ in range(SESSIONS)))


def main(connect):
    # What one era has no longer, the other still needs.
    warnings.simplefilter("ignore")
    asyncio.run(run_all(connect))
