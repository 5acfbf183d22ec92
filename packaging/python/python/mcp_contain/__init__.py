"""Ends stdio MCP servers with their host, also when the host is killed: the program `mcp-contain` in front of each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any, Literal, Protocol, TypedDict, TypeVar

__all__ = ["Orphans", "Reaped", "Unknown", "contained", "orphans", "program", "reap"]


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


def contained(params: P, *, grace: float | None = None, require: Literal["guardian", "cgroup", "pidns"] | None = None) -> P:
    """Returns a copy of `mcp.StdioServerParameters` that starts the same server contained.

    `grace` is in seconds: the time to end after the end of input, and again after SIGTERM; 2 if None.
    `require` refuses to start a server that would be held by less."""
    options: list[str] = []
    if grace is not None:
        options += ["--grace", f"{round(grace * 1000)}ms"]
    if require is not None:
        options += ["--require", require]
    copy: P = params.model_copy(update={"command": program(), "args": [*options, "--", params.command, *params.args]})
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
