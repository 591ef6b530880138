"""Runs stored in files as they finish, so that an interrupted sweep can continue."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, Optional, Union

from . import _native
from ._native import Error
from .records import MemoryRun, Run
from .workers import AnyPlan


class Kept:
    """Store of runs in a folder; without a folder it stores nothing."""

    def __init__(self, folder: Union[str, os.PathLike[str], None]):
        self.folder = None if folder is None else Path(folder)
        if self.folder is not None:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as problem:
                raise Error(f"{self.folder}: {problem.strerror}") from problem

    def path(self, plan: AnyPlan) -> Optional[Path]:
        """Path of the file of ``plan``'s run; None without a folder."""
        return None if self.folder is None else self.folder / f"{digest(plan)}.json"

    def find(self, plan: AnyPlan) -> Union[Run, MemoryRun, None]:
        """The stored run of ``plan``; None if it is missing or damaged."""
        path = self.path(plan)
        if path is None or not path.exists():
            return None
        try:
            return plan.RECORD(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, AttributeError, Error) as problem:
            print(f"flashloom: {path}: {problem}; repeating the run", file=sys.stderr)
            return None

    def keep(self, plan: AnyPlan, run: Union[Run, MemoryRun]) -> None:
        """Stores ``run`` atomically: its file is complete or absent."""
        path = self.path(plan)
        if path is not None:
            _native.write(str(path), run.to_json())


def digest(plan: AnyPlan) -> str:
    """A fingerprint of everything that determines a run: the program, the plan, the contents of
    the trace that it replays, and the source of custom policies."""
    parts = [program(), plan.document, trace(plan.fields["workload"])]
    parts += [source(policy) for policy in (plan.victim, plan.placement)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@lru_cache(maxsize=None)
def program() -> str:
    """A checksum of the package's compiled half."""
    return checksum(Path(_native.__file__))


def trace(workload: str) -> str:
    """A checksum of the trace file that a workload names before its parameters; empty if none."""
    name = workload
    while name:
        if os.path.isfile(name):
            return checksum(Path(name))
        name = name.rpartition(":")[0]
    return ""


def checksum(path: Path) -> str:
    """SHA-256 of the contents of a file, in hexadecimal."""
    sha = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            sha.update(piece)
    return sha.hexdigest()


def source(policy: Any) -> str:
    """The source text of a policy, without the functions that it calls."""
    if policy is None:
        return ""
    try:
        return inspect.getsource(policy)
    except (OSError, TypeError) as problem:
        name = getattr(policy, "__name__", policy)
        reason = "its source cannot be read, so its runs cannot be kept"
        raise Error(f"{name}: {reason}") from problem
