"""A host: starts a server, calls a tool, says what it answered and after how long, and waits to be killed. One that is
to see a certain end (`ended-HOW`) ends the server instead, and expects that."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import mcp
from mcp import StdioServerParameters


async def main() -> None:
    how, command, *args = sys.argv[1:]
    params = StdioServerParameters(command=command, args=args)
    if how == "path":
        params = StdioServerParameters(command="mcp-contain", args=[command, *args])
    elif how == "contained":
        # Where the package of Debian is tried, there is no module.
        from mcp_contain import contained, orphans, reap

        params = contained(params, grace=1.0, require="guardian")
        assert not orphans()["orphans"] and not reap()["failed"]
    elif how.startswith("ended-"):
        return await ends(how, params)
    since = time.monotonic()
    if hasattr(mcp, "Client"):
        async with mcp.Client(params) as client:
            await answered(client, since)
    else:
        async with mcp.stdio_client(params) as streams, mcp.ClientSession(*streams) as session:
            await session.initialize()
            await answered(session, since)


async def answered(client: "mcp.Client | mcp.ClientSession", since: float) -> None:
    await answers(client)
    print(f"answered after {time.monotonic() - since:.2f} s", flush=True)
    await asyncio.Event().wait()


async def answers(client: "mcp.Client | mcp.ClientSession") -> None:
    result = await client.call_tool("get_current_time", {"timezone": "UTC"})
    text = result.content[0]
    assert isinstance(text, mcp.types.TextContent) and '"UTC"' in text.text, result


async def ends(how: str, params: StdioServerParameters) -> None:
    from mcp_contain import NotStarted, Report, Unproven, contained

    report = Report()
    # Before the start, too.
    early = asyncio.create_task(report.ended())
    params = contained(params, grace=1.0, report=report)
    try:
        async with mcp.stdio_client(params) as streams, mcp.ClientSession(*streams) as session:
            await session.initialize()
            await answers(session)
            if how == "ended-unproven":
                os.kill(guardian(), signal.SIGKILL)
    except Exception:
        assert how in ("ended-never", "ended-unproven")
    try:
        ended = await early
        assert ended == await report.ended() and how == f"ended-{ended['how']}", ended
        assert "reaped" in ended["evidence"] and len(ended["names"]) == ended["swept"], ended
        assert (ended["swept"] > 0) == (how == "ended-killed"), ended
    except NotStarted:
        assert how == "ended-never"
    except Unproven as error:
        assert how == "ended-unproven" and error.report is None and isinstance(error.survivors, list)
    print(f"python.py: {how}")


def guardian() -> int:
    wrapper = Path("/proc/self/task", str(os.getpid()), "children").read_text().split()[0]
    return int(Path("/proc", wrapper, "task", wrapper, "children").read_text())


asyncio.run(main())
