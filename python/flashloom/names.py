"""Lists of names: stacks, drives, designs of memory, workloads and programs, metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _native


@dataclass(frozen=True)
class Named:
    """A name that plans accept, and its help text."""

    name: str
    help: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Parameter:
    """A parameter of a workload: its name, default, form of a value, and help."""

    name: str
    default: str
    value: str
    help: str


@dataclass(frozen=True)
class WorkloadEntry(Named):
    """A workload and its parameters."""

    params: tuple[Parameter, ...]


@dataclass(frozen=True)
class Metric:
    """A number of a record: its column in frames, label, unit and help."""

    column: str
    label: str
    unit: str
    help: str


def stacks() -> list[Named]:
    """The stacks that can be run."""
    return [Named(*entry) for entry in _native.stacks()]


def drives() -> list[Named]:
    """The presets of drives."""
    return [Named(*entry) for entry in _native.drives()]


def workloads() -> list[WorkloadEntry]:
    """The workloads of requests and of files."""
    return entries(_native.workloads())


def designs() -> list[Named]:
    """The designs of memory with a CXL-SSD."""
    return [Named(*entry) for entry in _native.designs()]


def programs() -> list[WorkloadEntry]:
    """The programs for memory."""
    return entries(_native.programs())


def entries(told: Any) -> list[WorkloadEntry]:
    """Workload entries from the tuples ``told`` by the compiled half."""
    return [
        WorkloadEntry(name, help, tuple(Parameter(*param) for param in params))
        for name, help, params in told
    ]


def metrics() -> list[Metric]:
    """The numbers of a record that are columns of a frame, in their order."""
    return [
        Metric(path[1:].replace("/", "."), label, unit, help)
        for path, label, unit, help in _native.metrics()
    ]
