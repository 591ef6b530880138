"""Runs that are kept in files as they are made, so that what was interrupted goes on."""

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
    """Where runs are kept; nowhere without a folder."""

    def __init__(self, folder: Union[str, os.PathLike[str], None]):
        self.folder = None if folder is None else Path(folder)
        if self.folder is not None:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as problem:
                raise Error(f"{self.folder}: {problem.strerror}") from problem

    def path(self, plan: AnyPlan) -> Optional[Path]:
        """The file of ``plan``'s run."""
        return None if self.folder is None else self.folder / f"{digest(plan)}.json"

    def find(self, plan: AnyPlan) -> Union[Run, MemoryRun, None]:
        """The run of ``plan``, if it is there as a whole."""
        path = self.path(plan)
        if path is None or not path.exists():
            return None
        try:
            return plan.RECORD(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, AttributeError, Error) as problem:
            print(f"flashloom: {path}: {problem}; it is run again", file=sys.stderr)
            return None

    def keep(self, plan: AnyPlan, run: Union[Run, MemoryRun]) -> None:
        """Keeps ``run``: under its name it is there as a whole or not at all."""
        path = self.path(plan)
        if path is not None:
            _native.write(str(path), run.to_json())


def digest(plan: AnyPlan) -> str:
    """A fingerprint of all that determines a run: the program, the plan, the contents of
    the trace that it replays, and the source of policies that are its own."""
    parts = [program(), plan.document, trace(plan.fields["workload"])]
    parts += [source(policy) for policy in (plan.victim, plan.placement)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@lru_cache(maxsize=None)
def program() -> str:
    """A checksum of the compiled half."""
    return checksum(Path(_native.__file__))


def trace(workload: str) -> str:
    """A checksum of the file that a workload names, with parameters after a colon."""
    name = workload
    while name:
        if os.path.isfile(name):
            return checksum(Path(name))
        name = name.rpartition(":")[0]
    return ""


def checksum(path: Path) -> str:
    """SHA-256 of what is in a file."""
    sha = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            sha.update(piece)
    return sha.hexdigest()


def source(policy: Any) -> str:
    """The text of a policy. What it calls is not in it."""
    if policy is None:
        return ""
    try:
        return inspect.getsource(policy)
    except (OSError, TypeError) as problem:
        name = getattr(policy, "__name__", policy)
        reason = "its source cannot be read, so its runs cannot be kept"
        raise Error(f"{name}: {reason}") from problem
