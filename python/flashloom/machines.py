"""Programs on memory systems with a CXL-SSD."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Optional, Union

from . import _native
from .names import designs as all_designs
from .plans import assignments
from .records import MemoryRun, MemoryRuns
from .running import on_threads


@dataclass(frozen=True)
class MemoryPlan:
    """One run: a program, a design of memory, a reading of the paper, a seed, and changed settings.

    ``MemoryPlan("bfs", "skybyte-full")`` is what ``flashloom memory skybyte-full --workload bfs``
    runs.
    """

    RECORD: ClassVar[type[MemoryRun]] = MemoryRun
    # Memory plans have no custom policies.
    victim: ClassVar[None] = None
    placement: ClassVar[None] = None

    workload: str
    design: str
    profile: str = "default"
    seed: int = 1
    knobs: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Entries of `designs` and `programs` are accepted in place of their names.
        for name in ("workload", "design"):
            object.__setattr__(self, name, str(getattr(self, name)))

    @property
    def fields(self) -> dict[str, Any]:
        """The plan as a dictionary."""
        return {**vars(self), "knobs": assignments(self.knobs)}

    @property
    def document(self) -> str:
        """The plan as a JSON document, which identifies a stored run."""
        return json.dumps(self.fields, sort_keys=True)

    def run(self, heard: Optional[Callable[[int], object]] = None) -> MemoryRun:
        """Runs the plan in the calling thread, without a design to compare with."""
        asked = {"profile": self.profile, "seed": self.seed, "knobs": self.knobs}
        return memory(self.workload, self.design, jobs=1, heard=heard, **asked)[0]


def memory(
    workload: str,
    designs: Union[str, Sequence[str], None] = None,
    *,
    profile: str = "default",
    seed: int = 1,
    knobs: Optional[Mapping[str, Any]] = None,
    jobs: Optional[int] = None,
    heard: Optional[Callable[[int], object]] = None,
) -> MemoryRuns:
    """Runs one program on one design, on several, or on all, as ``flashloom memory`` does.

    ``profile`` is the reading of the paper, and ``knobs`` change all designs, such as
    ``{"device.hints.threshold": "4us"}``. ``jobs`` limits the runs at a time, by default one a
    core. ``heard`` is called from time to time, by the threads of the runs, with the number of
    instructions that all runs have executed, warm-up included; an exception in it ends all runs.
    The wall time of a run includes the part of the program before its section, if no other run
    had executed that part.
    """
    if designs is None:
        designs = [design.name for design in all_designs()]
    names = [designs] if isinstance(designs, str) else [str(design) for design in designs]
    changes = assignments(knobs or {})
    sweep = _native.Designs(names, str(workload), profile, changes, seed)

    def carry_out(turn: int, listener: Callable[..., object]) -> tuple[int, float]:
        begin = time.perf_counter()
        place = sweep.run(turn, listener)
        return place, time.perf_counter() - begin

    took = dict(on_threads(range(len(sweep)), carry_out, jobs, heard))
    records = json.loads(sweep.document())["runs"]
    return MemoryRuns(
        MemoryRun({**record, "wall_time_s": took[place]}) for place, record in enumerate(records)
    )
