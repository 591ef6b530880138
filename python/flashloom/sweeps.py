"""Sweeps: many runs, over the processes of one machine or over a Ray cluster.

Invariants: records are in the order of the plans, in whatever process they ran. A stored run
is complete or absent, and is reused only by the same program for the same plan. A run that
fails does not affect other runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, Optional, Union

from ._native import Error
from .extras import extra
from .kept import Kept
from .machines import MemoryPlan
from .plans import Plan
from .records import MemoryRun, MemoryRuns, Run, Runs
from .workers import AnyPlan, over_processes, over_ray


def sweep(
    plans: Union[str, os.PathLike[str], AnyPlan, Iterable[AnyPlan]],
    *,
    workers: Optional[int] = None,
    ray: Union[bool, str] = False,
    out: Union[str, os.PathLike[str], None] = None,
    progress: Optional[bool] = None,
) -> Union[Runs, MemoryRuns]:
    """Runs all ``plans``, or those of a plan file: all of drives, or all of memory.

    ``workers`` limits the runs at a time; by default there is one for each core. With ``ray``
    the runs are tasks of a Ray cluster: the one that this process is connected to, or the one
    at the address in ``ray``, or a new one on this machine. Finished runs are stored in the
    folder ``out``, and a repeated call continues from there. ``progress`` turns the progress
    bar on or off; by default it is shown on a terminal.
    """
    wanted = planned(plans)
    kept = Kept(out)
    records: list[Union[Run, MemoryRun, None]] = [kept.find(plan) for plan in wanted]
    missing = [index for index, record in enumerate(records) if record is None]
    failures: list[str] = []
    with bar(len(wanted), len(wanted) - len(missing), progress) as shown:
        for index, outcome in made([wanted[i] for i in missing], workers, ray):
            plan = wanted[missing[index]]
            if not isinstance(outcome, str):
                kept.keep(plan, outcome)
                records[missing[index]] = outcome
            else:
                failures.append(f"{plan!r}: {outcome}")
            shown.update()
    if failures:
        count = f"{len(failures)} of {len(wanted)} runs failed"
        raise Error(f"{count}; the first is {failures[0]}")
    made_all = [record for record in records if record is not None]
    return (MemoryRuns if any_of_memory(wanted) else Runs)(made_all)


def planned(plans: Any) -> list[AnyPlan]:
    """``plans`` as a list; checks that all are of one kind."""
    if isinstance(plans, (Plan, MemoryPlan)):
        return [plans]
    if isinstance(plans, (str, os.PathLike)):
        return list(Plan.from_file(plans))
    every = list(plans)
    if any_of_memory(every) and any(isinstance(plan, Plan) for plan in every):
        raise Error("a sweep is of drives or of memory: expected plans of one kind")
    return every


def any_of_memory(plans: list[AnyPlan]) -> bool:
    """Whether there is a plan of memory among ``plans``."""
    return any(isinstance(plan, MemoryPlan) for plan in plans)


def made(plans: list[AnyPlan], count: Optional[int], ray: Union[bool, str]) -> Any:
    """Outcomes with the indices of their plans, in order of completion."""
    if not plans:
        return iter(())
    if ray:
        return over_ray(plans, count, ray)
    return over_processes(plans, count)


class bar:
    """A progress bar of tqdm, or none."""

    def __init__(self, total: int, done: int, progress: Optional[bool]):
        self.shown = None
        if progress is False or (progress is None and not sys.stderr.isatty()):
            return
        try:
            tqdm = extra("tqdm", "progress", "a progress bar").tqdm
        except Error:
            if progress:
                raise
            return
        self.shown = tqdm(total=total, initial=done, unit="run")

    def __enter__(self) -> bar:
        return self

    def update(self) -> None:
        """Advances the bar by one finished run."""
        if self.shown is not None:
            self.shown.update()

    def __exit__(self, *_: object) -> None:
        if self.shown is not None:
            self.shown.close()
