"""Ends stdio MCP servers with their host, also when the host is killed: the program `mcp-contain` in front of each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
import weakref
from pathlib import Path
from typing import Any, Literal, Protocol, TypedDict, TypeVar

__all__ = ["Containment", "Ended", "NotStarted", "Orphans", "Reaped", "Report", "Unknown", "Unproven", "contained", "orphans", "program", "reap"]


class _Params(Protocol):
    """The part of `mcp.StdioServerParameters`, a model of pydantic, that is changed here."""

    command: str
    args: list[str]

    def model_copy(self, *, update: dict[str, Any]) -> Any: ...


P = TypeVar("P", bound=_Params)


class Unknown(TypedDict):
    """Something that could not be looked at, and why."""

    what: str
    why: str


class Orphans(TypedDict):
    """What is left of servers whose host is gone."""

    orphans: list[dict[str, Any]]
    containers: list[Any]
    unknown: list[Unknown]


class Reaped(TypedDict):
    """What `reap` ended, could not end, and spared."""

    ended: list[str]
    failed: list[str]
    spared: list[str]
    unknown: list[Unknown]


class Containment(TypedDict):
    """What held a server, and why it is not the best."""

    mechanism: str
    fallback: str | None


class Ended(TypedDict):
    """How a server ended, as `mcp-contain` reports it; its documentation has the schema."""

    id: str
    name: str
    containment: Containment
    how: Literal["itself", "asked", "killed", "unproven"]
    ended: float
    asked: bool
    forced: bool
    host_gone: bool
    out_of_memory: bool
    code: int | None
    signal: int | None
    swept: int
    names: list[str]
    seconds: float
    evidence: list[str]
    stderr: str | None


class NotStarted(RuntimeError):
    """The server was not started, and nothing of it is left. Its exit code and standard error say why."""


class Unproven(RuntimeError):
    """Something of the server may live: `survivors` are those of its processes that are known to. `report` is None where its guardian was killed."""

    def __init__(self, report: Ended | None, survivors: list[dict[str, Any]]) -> None:
        alive = ", ".join(f"{process['name']} ({process['pid']})" for process in survivors)
        super().__init__(f"nothing proves that the server has ended; known to live: {alive or 'none'}; `mcp-contain reap` ends what is left")
        self.report = report
        self.survivors = survivors


class Report:
    """The report of one server, for `contained`. It holds a descriptor until it and the parameters are dropped."""

    def __init__(self) -> None:
        from anyio import Lock

        self._lock = Lock()
        self._text = b""
        self._is_over = False
        # Without a name from here on: the guardian opens it by this process's descriptor.
        directory = tempfile.mkdtemp(prefix="mcp-contain-")
        try:
            fifo = os.path.join(directory, "report")
            os.mkfifo(fifo, 0o600)
            self._fd = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        finally:
            shutil.rmtree(directory)

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            os.close(self._fd)

    async def ended(self) -> Ended:
        """Waits until the server has ended, and returns how.

        Raises Unproven where something of it may live, and NotStarted where it was not started. May be called
        before the start, by several tasks and again, with asyncio and trio."""
        from anyio import to_thread, wait_readable

        async with self._lock:
            while not self._is_over:
                await wait_readable(self._fd)
                part = os.read(self._fd, 65536)
                self._text += part
                self._is_over = not part
        lines = [json.loads(line) for line in self._text.splitlines(keepends=True) if line.endswith(b"\n")]
        if not lines:
            raise NotStarted("the server was not started; its exit code and standard error say why")
        report: Ended | None = lines[-1] if lines[-1]["event"] == "ended" else None
        if report is None or report["how"] == "unproven":
            raise Unproven(report, await to_thread.run_sync(_survivors, lines[0]["id"]))
        return report


def _survivors(server: str) -> list[dict[str, Any]]:
    return [process for seen in _ask("ps", "--json")["servers"] if seen["id"] == server for process in seen["processes"]]


def program() -> str:
    """Returns the path of `mcp-contain`: the one that was installed with this module, else the one in `PATH`.

    Raises FileNotFoundError where there is none."""
    name = "mcp-contain" + (sysconfig.get_config_var("EXE") or "")
    user = sysconfig.get_preferred_scheme("user")
    directories = [
        Path(sysconfig.get_path("scripts")),
        Path(sysconfig.get_path("scripts", scheme=user)),
        # `pip install --target`
        Path(__file__).parent.parent / "bin",
    ]
    for path in (directory / name for directory in directories):
        if os.access(path, os.X_OK):
            return str(path)
    if found := shutil.which(name):
        return found
    raise FileNotFoundError(f"cannot find {name} in {', '.join(map(str, directories))} or PATH; reinstall the package mcp-contain")


def contained(
    params: P,
    *,
    grace: float | None = None,
    require: Literal["guardian", "cgroup", "pidns"] | None = None,
    report: Report | None = None,
) -> P:
    """Returns a copy of `mcp.StdioServerParameters` that starts the same server contained.

    `grace` is in seconds: the time to end after the end of input, and again after SIGTERM; 2 if None.
    `require` refuses to start a server that would be held by less. `report` says how the server ended."""
    options: list[str] = []
    if grace is not None:
        options += ["--grace", f"{round(grace * 1000)}ms"]
    if require is not None:
        options += ["--require", require]
    if report is not None:
        options += ["--report", f"/proc/{os.getpid()}/fd/{report._fd}"]
    copy: P = params.model_copy(update={"command": program(), "args": [*options, "--", params.command, *params.args]})
    if report is not None:
        # The parameters name its descriptor.
        weakref.finalize(copy, lambda _: None, report)
    return copy


def orphans() -> Orphans:
    """Returns what is left of servers whose host is gone, and changes nothing."""
    found: Orphans = _ask("reap", "--dry-run", "--json")
    return found


def reap() -> Reaped:
    """Ends what is left of servers whose host is gone."""
    done: Reaped = _ask("reap", "--json")
    return done


def _ask(*words: str) -> Any:
    # 1 is an answer too: something is left, or unknown.
    done = subprocess.run([program(), *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"mcp-contain {' '.join(words)} failed with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)
