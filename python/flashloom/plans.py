"""Drives, stacks, workloads and plans: the inputs of a run.

Invariant: all of these are values. They can be compared, sent to other processes and
stored, and a plan read back is the same plan.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Optional, Union

from . import _native
from ._native import Line, Write
from .records import Run, flat

Victim = Callable[[list[Line]], Line]
Placement = Callable[[Write], int]


class Drive:
    """A drive: a preset or a drive's TOML file, with changed settings.

    Knobs are those of ``flashloom drives block``:
    ``Drive("fdp", size="1GiB", **{"collection.victim": "greedy"})``.
    """

    def __init__(self, name: str, size: Union[str, int, None] = None, **knobs: Any):
        self.name, self.size, self.knobs = str(name), words(size), knobs
        self.config: dict[str, Any] = json.loads(
            _native.drive(self.name, self.size, assignments(knobs))
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Drive) and self.config == other.config

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        knobs = "".join(f", {knob}={value!r}" for knob, value in self.knobs.items())
        return f"Drive({self.name!r}, size={self.size!r}{knobs})"


class Workload(str):
    """A workload with its parameters: ``Workload("varmail", files=1000)``."""

    def __new__(cls, name: str, **params: Any) -> Workload:
        told = ",".join(f"{param}={word(value)}" for param, value in params.items())
        joint = "," if ":" in name and told else ":" if told else ""
        return super().__new__(cls, f"{name}{joint}{told}")


class Stack:
    """A stack: a host on a drive, with the settings that differ from their defaults.

    ``Stack("ext4+writeback@fdp", size="1GiB", **{"page_cache.memory": "64MiB"})`` takes the
    settings of ``flashloom drives`` and of ``flashloom stacks``. It is accepted wherever the name
    of a stack is; choices made there override those of the stack.
    """

    def __init__(
        self,
        name: str,
        drive: Union[Drive, str, None] = None,
        size: Union[str, int, None] = None,
        **knobs: Any,
    ):
        if isinstance(name, Stack):
            raise TypeError(f"expected the name of a stack, found {name!r}; see Stack.setting")
        self.name, self.drive, self.size, self._own = str(name), drive, words(size), knobs
        # The settings are resolved now; they do not depend on the workload.
        told = self.plan("randread").fields
        # The name of a drive comes from its file, and is no setting.
        del told["drive"]["name"]
        self._knobs: dict[str, Any] = flat(told["drive"])
        self._knobs |= flat(told["host"], "host.") | flat(told["page_cache"], "page_cache.")

    @property
    def own(self) -> dict[str, Any]:
        """Knobs chosen for this stack, by name."""
        return dict(self._own)

    @property
    def knobs(self) -> dict[str, Any]:
        """All settings of the stack with their values."""
        return dict(self._knobs)

    @property
    def host(self) -> str:
        """The host on the drive: ``raw`` for plain requests, or a file system."""
        return self.name.split("@")[0].split("+")[0]

    @property
    def switches(self) -> list[str]:
        """Variants of the host, such as ``writeback``."""
        return self.name.split("@")[0].split("+")[1:]

    @property
    def interface(self) -> str:
        """The interface of the drive, such as ``fdp``."""
        return self.name.split("@")[1]

    def setting(self, **knobs: Any) -> Stack:
        """A copy of the stack with other values of these settings."""
        return Stack(self.name, self.drive, self.size, **(self.own | knobs))

    def plan(self, workload: Optional[str] = None, **choices: Any) -> Plan:
        """A plan of ``workload`` on it, with the choices of :meth:`Plan.make`."""
        return Plan.make(self, workload, **choices)

    def run(self, workload: Optional[str] = None, *, heard: Any = None, **choices: Any) -> Run:
        """Runs ``workload`` on it, as :func:`flashloom.run` does."""
        from . import running

        return running.run(self, workload, heard=heard, **choices)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stack) and (self.name, self.knobs) == (other.name, other.knobs)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        own = {"drive": self.drive, "size": self.size} | self.own
        told = "".join(f", {name}={value!r}" for name, value in own.items() if value is not None)
        return f"Stack({self.name!r}{told})"


@dataclass(frozen=True)
class Choices:
    """Choices common to all plans of a call, in the form of the compiled half.

    Functions may replace the firmware's policies. Each must be a pure function of its
    arguments, or runs are no longer functions of their plans.
    """

    drive: Union[Drive, str, None] = None
    size: Union[str, int, None] = None
    seed: Optional[int] = None
    timeline: Union[str, None] = None
    knobs: Optional[Mapping[str, Any]] = None
    victim: Optional[Victim] = None
    placement: Optional[Placement] = None
    until: str = "end"

    def on(self, stack: Union[Stack, str]) -> Choices:
        """These choices, completed by those of ``stack``; the former take precedence."""
        if not isinstance(stack, Stack):
            return self
        drive, size, knobs = stack.drive, stack.size, stack.own
        if self.drive is not None:
            drive = self.drive
        if isinstance(self.drive, Drive):
            size = self.drive.size or size
            knobs |= self.drive.knobs
        return replace(
            self,
            drive=drive,
            size=size if self.size is None else self.size,
            knobs=knobs | dict(self.knobs or {}),
        )

    def chosen(self) -> Any:
        name, size, set_ = self.drive, words(self.size), []
        if isinstance(name, Drive):
            size = size or name.size
            set_ = assignments(name.knobs)
            name = name.name
        set_ += assignments(self.knobs or {})
        return (name, size, set_, self.seed, self.timeline, self.until)


def _past(fields: dict[str, Any]) -> str:
    """The precondition of a plan, as options name it."""
    used = fields.get("used")
    return f"used:fill={used['fill']}" if used else fields["precondition"]


@dataclass(frozen=True, repr=False)
class Plan:
    """One run: a stack, a workload, a preconditioned drive, a seed.

    ``Plan.make("ext4@fdp", "varmail:files=1000", size="1GiB")`` is what
    ``flashloom run ext4@fdp --workload varmail:files=1000 --size 1GiB`` runs.
    """

    RECORD: ClassVar[type[Run]] = Run

    document: str
    victim: Optional[Victim] = None
    placement: Optional[Placement] = None

    @classmethod
    def make(
        cls,
        stack: Union[Stack, str],
        workload: Optional[str] = None,
        *,
        precondition: Optional[str] = None,
        **choices: Any,
    ) -> Plan:
        """A plan with these choices; all others have the command line's defaults.

        ``choices`` are ``drive``, ``size``, ``seed``, ``timeline`` (such as ``"10ms"``),
        ``knobs``, ``victim``, ``placement`` and ``until``: ``"end"``, or ``"steady"``, which
        repeats requests to a drive until its write amplification is that of the steady state.
        """
        chosen = Choices(**choices).on(stack)
        document = _native.plan(str(stack), words(workload), precondition, chosen.chosen())
        return cls(document, chosen.victim, chosen.placement)

    @classmethod
    def compared(
        cls,
        workload: str = "rocksdb",
        stacks: Optional[Sequence[Union[Stack, str]]] = None,
        preconditions: Optional[list[str]] = None,
        **choices: Any,
    ) -> list[Plan]:
        """The plans of ``flashloom compare``, each completed by the choices of its stack."""
        chosen = Choices(**choices)
        names = None if stacks is None else [str(stack) for stack in stacks]
        documents = _native.compared(str(workload), names, preconditions, chosen.chosen())
        named = stacks or [""]
        for at, document in enumerate(documents):
            # All stacks with one precondition come before all with the next.
            stack = named[at % len(named)]
            if isinstance(stack, Stack):
                had, own = _past(json.loads(document)), chosen.on(stack).chosen()
                documents[at] = _native.compared(str(workload), [stack.name], [had], own)[0]
        return [cls(text, chosen.victim, chosen.placement) for text in documents]

    @classmethod
    def from_file(cls, path: Union[str, os.PathLike[str]]) -> list[Plan]:
        """The plans of a plan file."""
        return [cls(document) for document in _native.plan_file(os.fspath(path))]

    @property
    def fields(self) -> dict[str, Any]:
        """The plan as a dictionary."""
        return json.loads(self.document)

    def __repr__(self) -> str:
        told = self.fields
        own = [name for name in ("victim", "placement") if getattr(self, name)]
        policies = f", own {' and '.join(own)}" if own else ""
        return (
            f"Plan({told['stack']} {told['workload']}, {_past(told)}, "
            f"seed {told['seed']}{policies})"
        )


def assignments(knobs: Mapping[str, Any]) -> list[str]:
    """Settings as ``setting=value`` of the command line."""
    return [f"{knob}={word(value)}" for knob, value in knobs.items()]


def word(value: Any) -> str:
    """A value in the form of the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def words(value: Any) -> Optional[str]:
    """An optional value in the form of the command line."""
    return None if value is None else word(value)
