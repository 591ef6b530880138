"""Records of runs, and the frames and plots made of them.

Invariant: a record is the document ``flashloom.run/1``, field by field as the command
line prints it with ``--json``; a frame holds what is in it and computes nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Union, overload

from ._native import Error
from .extras import extra
from .names import metrics

RUN = "flashloom.run/1"
COMPARISON = "flashloom.compare/1"

# What tells runs apart, as the first columns of a frame.
HEAD = ("stack", "workload", "label", "precondition", "seed")


class Run(Mapping[str, Any]):
    """One record: a mapping of its fields."""

    def __init__(self, record: Mapping[str, Any]):
        if record.get("schema") != RUN:
            raise Error(f"expected a {RUN} document, found {record.get('schema')!r}")
        self.record = dict(record)

    def __getitem__(self, key: str) -> Any:
        return self.record[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.record)

    def __len__(self) -> int:
        return len(self.record)

    def __repr__(self) -> str:
        told = [self[name] for name in ("stack", "workload", "precondition")]
        return f"Run({told[0]} {told[1]}, {told[2]}, {self['ops_per_s']:.0f} operations/s)"

    @property
    def name(self) -> str:
        """Its stack and past, and what else sets it apart."""
        return " ".join(filter(None, (self["stack"], self["precondition"], self["label"])))

    def value(self, column: str) -> Any:
        """The number in ``column``, such as ``waf.device``; None if there is none."""
        value: Any = self.record
        for key in column.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    def row(self) -> dict[str, Any]:
        """What tells it apart, and all its metrics."""
        head = {name: self[name] for name in HEAD}
        return head | {m.column: self.value(m.column) for m in metrics()}

    def timeline(self) -> Any:
        """Its series over virtual time as a frame; empty unless it was asked for."""
        pandas = extra("pandas", "pandas", "a frame")
        return pandas.json_normalize(self["timeline"])

    def to_json(self) -> str:
        """The document."""
        return json.dumps(self.record, indent=2)


class Runs(Sequence[Run]):
    """Records in the order of their plans."""

    def __init__(self, runs: Iterable[Run]):
        self.runs = list(runs)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> Runs: ...
    def __getitem__(self, index: Union[int, slice]) -> Union[Run, Runs]:
        if isinstance(index, slice):
            return Runs(self.runs[index])
        return self.runs[index]

    def __len__(self) -> int:
        return len(self.runs)

    def __repr__(self) -> str:
        return f"Runs({self.runs!r})"

    def columns(self) -> dict[str, list[Any]]:
        """All rows, column by column, without metrics that none of them has."""
        rows = [run.row() for run in self.runs]
        names = list(rows[0]) if rows else list(HEAD)
        table = {name: [row[name] for row in rows] for name in names}
        said = lambda name: any(value is not None for value in table[name])  # noqa: E731
        return {name: table[name] for name in names if name in HEAD or said(name)}

    def to_pandas(self) -> Any:
        """A frame with a row for each run and a column for each metric."""
        return extra("pandas", "pandas", "a frame").DataFrame(self.columns())

    def to_arrow(self) -> Any:
        """The same as an Arrow table."""
        return extra("pyarrow", "arrow", "an Arrow table").table(self.columns())

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
        }
        return json.dumps(document, indent=2)


def load(path: Union[str, os.PathLike[str]]) -> Runs:
    """The records of a document that a run, a comparison or a sweep has written."""
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except (OSError, ValueError) as problem:
        raise Error(f"{os.fspath(path)}: {problem}") from problem
    if isinstance(document, dict) and document.get("schema") == COMPARISON:
        return Runs(Run(record) for record in document["runs"])
    return Runs([Run(document if isinstance(document, dict) else {})])
