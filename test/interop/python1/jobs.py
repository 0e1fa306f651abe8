# Copyright The Signalbox Authors.
# SPDX-License-Identifier: Apache-2.0

"""Runs jobs with clients that are built on version 1 of the Python SDK. A driver gives
main a function that connects and yields a session. The session has a method for each
feature that its library offers; main tries these, in the order of FEATURES. It reads a
JSON array of jobs from standard input and prints one JSON line per server and feature,
and one when a session has closed."""

import asyncio
import json
import sys
import time

LIMIT_SECONDS = 120
BRIEF_SECONDS = 5
SESSIONS = 4


def includes_all(got, wanted):
    missing = [want for want in wanted if want not in got]
    if missing:
        raise AssertionError(f"{missing} not in {got}")


def contains(got, want):
    if want not in got:
        raise AssertionError(f"got {got!r}, want {want!r} in it")


def listing(kind):
    async def run(session, want):
        includes_all(await getattr(session, kind)(), want)

    return run


async def call(session, want):
    contains(await session.call(want["name"], want.get("arguments") or {}), want["want"])


async def read(session, want):
    for probe in want:
        contains(await session.read(probe["uri"]), probe["text"])


async def get(session, want):
    contains(await session.get(want["name"], want.get("arguments")), want["want"])


async def instruct(session, want):
    contains(session.instructions or "", want)


# The feature, the method of a session that it needs, and how it is tried.
FEATURES = {
    "tools": ("tools", listing("tools")),
    "resources": ("resources", listing("resources")),
    "templates": ("templates", listing("templates")),
    "prompts": ("prompts", listing("prompts")),
    "call": ("call", call),
    "read": ("read", read),
    "get": ("get", get),
    "instruct": ("instructions", instruct),
}


def headers_of(target):
    """The headers with the token of a target, if it has one."""
    return {"Authorization": f"Bearer {target['token']}"} if "token" in target else {}


def text_of(content):
    """The text of a result's content, as the SDK has it."""
    return "\n".join(getattr(block, "text", "") for block in content)


def reason(error) -> str:
    """The first cause: the SDK ends with groups of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def report(job, server, feature, started, error=""):
    line = {"job": job["id"], "server": server, "feature": feature, "ok": not error, "error": error}
    line["ms"] = round((time.monotonic() - started) * 1000)
    print(json.dumps(line), flush=True)


async def within(job, server, feature, limit, run):
    started, error = time.monotonic(), ""
    try:
        await asyncio.wait_for(run(), limit)
    except TimeoutError:
        error = f"no result after {limit} s"
    except Exception as failure:
        error = reason(failure)
    report(job, server, feature, started, error)


async def try_all(job, session):
    for server in job["servers"]:
        for feature, (method, run) in FEATURES.items():
            want = server.get(feature)
            if want and hasattr(session, method):
                limit = BRIEF_SECONDS if feature in server.get("brief", []) else LIMIT_SECONDS
                await within(job, server["name"], feature, limit, lambda: run(session, want))


async def run_job(job, connect):
    started, closing = time.monotonic(), None
    try:
        async with connect(job["target"]) as session:
            if session.version not in (None, job["version"]):
                raise AssertionError(f"negotiated {session.version}, want {job['version']}")
            report(job, "", "connect", started)
            await try_all(job, session)
            closing = time.monotonic()
        report(job, "", "close", closing)
    except Exception as error:
        if closing:
            report(job, "", "close", closing, reason(error))
        else:
            report(job, "", "connect", started, reason(error))


async def run_all(connect):
    jobs = iter(json.load(sys.stdin))

    async def work():
        for job in jobs:
            await run_job(job, connect)

    await asyncio.gather(*(work() for _ in range(SESSIONS)))


def main(connect):
    asyncio.run(run_all(connect))
