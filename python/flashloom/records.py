"""Records of runs, and the frames and plots made of them.

Invariant: a record is the document ``flashloom.run/1`` or ``flashloom.memory/1``, field by
field as the command line prints it with ``--json``; a frame holds numbers of records and
computes none.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, Union, overload

from . import _native
from ._native import Error
from .extras import extra
from .names import metrics

RUN = "flashloom.run/1"
COMPARISON = "flashloom.compare/1"
MEMORY = "flashloom.memory/1"
MEMORY_RUNS = "flashloom.memory-runs/1"

# Fields that identify runs: the first columns of a frame.
HEAD = ("stack", "workload", "label", "precondition", "seed")
MEMORY_HEAD = ("design", "workload", "profile", "threads", "seed")


def flat(fields: Mapping[str, Any], part: str = "") -> dict[str, Any]:
    """The leaves of a tree that are not None, by dotted path after the prefix ``part``."""
    leaves: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, Mapping):
            leaves |= flat(value, f"{part}{name}.")
        elif value is not None:
            leaves[part + name] = value
    return leaves


class Record(Mapping[str, Any]):
    """One record: a mapping of its fields."""

    SCHEMA: str

    def __init__(self, record: Mapping[str, Any]):
        if record.get("schema") != self.SCHEMA:
            raise Error(f"expected a {self.SCHEMA} document, found {record.get('schema')!r}")
        self.record = dict(record)

    def __getitem__(self, key: str) -> Any:
        return self.record[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.record)

    def __len__(self) -> int:
        return len(self.record)

    def value(self, column: str) -> Any:
        """The number in ``column``, such as ``waf.device``; None if there is none."""
        value: Any = self.record
        for key in column.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    def to_json(self) -> str:
        """The record as a JSON document."""
        return json.dumps(self.record, indent=2)


class Run(Record):
    """The record of a run on a stack."""

    SCHEMA = RUN

    def __repr__(self) -> str:
        told = [self[name] for name in ("stack", "workload", "precondition")]
        return f"Run({told[0]} {told[1]}, {told[2]}, {self['ops_per_s']:.0f} operations/s)"

    @property
    def name(self) -> str:
        """Stack, precondition and label, which identify the run in plots."""
        return " ".join(filter(None, (self["stack"], self["precondition"], self["label"])))

    def row(self) -> dict[str, Any]:
        """The identifying fields and all metrics of the run."""
        head = {name: self[name] for name in HEAD}
        return head | {m.column: self.value(m.column) for m in metrics()}

    def timeline(self) -> Any:
        """Series over virtual time as a frame; empty without ``timeline`` in the plan."""
        pandas = extra("pandas", "pandas", "a frame")
        return pandas.json_normalize(self["timeline"])


class MemoryRun(Record):
    """The record of a program on a memory system."""

    SCHEMA = MEMORY

    def __repr__(self) -> str:
        return f"MemoryRun({self['design']} {self['workload']}, {self['time_ns'] / 1e6:.3f} ms)"

    @property
    def name(self) -> str:
        """Design of the memory system."""
        return self["design"]

    def row(self) -> dict[str, Any]:
        """The identifying fields and all numbers, except the classes of distributions."""
        head = {name: self[name] for name in MEMORY_HEAD}
        return head | {
            column: value
            for column, value in flat(self.record).items()
            if not isinstance(value, (list, str)) and column not in head
        }


Some = TypeVar("Some", bound=Record)


class Table(Sequence[Some]):
    """A sequence of records, which converts to frames."""

    HEAD: tuple[str, ...]

    def __init__(self, runs: Iterable[Some]):
        self.runs = list(runs)

    @overload
    def __getitem__(self, index: int) -> Some: ...
    @overload
    def __getitem__(self, index: slice) -> Table[Some]: ...
    def __getitem__(self, index: Union[int, slice]) -> Union[Some, Table[Some]]:
        if isinstance(index, slice):
            return type(self)(self.runs[index])
        return self.runs[index]

    def __len__(self) -> int:
        return len(self.runs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.runs!r})"

    def columns(self) -> dict[str, list[Any]]:
        """All rows, column by column, without columns that are None in every row."""
        rows = [run.row() for run in self.runs]
        names = dict.fromkeys(name for row in rows for name in row) or self.HEAD
        table = {name: [row.get(name) for row in rows] for name in names}
        said = lambda name: any(value is not None for value in table[name])  # noqa: E731
        return {name: table[name] for name in names if name in self.HEAD or said(name)}

    def to_pandas(self) -> Any:
        """A frame with a row for each run and a column for each number."""
        return extra("pandas", "pandas", "a frame").DataFrame(self.columns())

    def to_arrow(self) -> Any:
        """An Arrow table with a row for each run and a column for each number."""
        return extra("pyarrow", "arrow", "an Arrow table").table(self.columns())


class Runs(Table[Run]):
    """Records in the order of their plans."""

    HEAD = HEAD

    def differences(self) -> list[dict[str, Any]]:
        """Differences of the runs besides the interfaces of their drives: for each differing field
        of drives and hosts, its name, and its values with the stacks that have them."""
        records = json.dumps([run.record for run in self.runs])
        return json.loads(_native.differences(records))

    def plot(self, metric: str = "latency_ns.p99", ax: Any = None) -> Any:
        """Bars of one metric, by its column or its label."""
        from . import plots

        return plots.bars(self, metric, ax)

    def plot_latency(self, ax: Any = None) -> Any:
        """The distributions of latency."""
        from . import plots

        return plots.latency(self, ax)

    def plot_timeline(self, column: str = "waf", ax: Any = None) -> Any:
        """One series of each run over virtual time."""
        from . import plots

        return plots.timeline(self, column, ax)

    def to_json(self) -> str:
        """The document ``flashloom.compare/1``."""
        first = self.runs[0] if self.runs else {"workload": "", "seed": 1}
        document = {
            "schema": COMPARISON,
            "workload": first["workload"],
            "seed": first["seed"],
            "runs": [run.record for run in self.runs],
            "differences": self.differences(),
        }
        return json.dumps(document, indent=2)


class MemoryRuns(Table[MemoryRun]):
    """Records of programs for memory in their order. Records of one call of ``memory`` have ratios
    to ``base-cssd`` if it is among them, else to the first; records of a sweep have none."""

    HEAD = MEMORY_HEAD

    def plot(self, column: str = "speed_up", ax: Any = None) -> Any:
        """Bars of one number, such as ``amat.mean_ns``."""
        from . import plots

        return plots.draw(self, column, column, ax)

    def to_json(self) -> str:
        """The document ``flashloom.memory-runs/1``."""
        document = {"schema": MEMORY_RUNS, "runs": [run.record for run in self.runs]}
        return json.dumps(document, indent=2)


def load(path: Union[str, os.PathLike[str]]) -> Union[Runs, MemoryRuns]:
    """Reads the records of a document written by a run, a comparison, a sweep, or programs for
    memory."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except (OSError, ValueError) as problem:
        raise Error(f"{os.fspath(path)}: {problem}") from problem
    document = document if isinstance(document, dict) else {}
    schema = document.get("schema")
    if schema == COMPARISON:
        return Runs(Run(record) for record in document["runs"])
    if schema == MEMORY_RUNS:
        return MemoryRuns(MemoryRun(record) for record in document["runs"])
    if schema == MEMORY:
        return MemoryRuns([MemoryRun(document)])
    return Runs([Run(document)])
