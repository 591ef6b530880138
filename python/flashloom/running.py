"""One run, and parallel runs in this process."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Any, Optional, TypeVar, Union

from . import _native
from .plans import Plan, Stack
from .records import Run, Runs

Heard = Callable[[int, int], object]
Piece, Made = TypeVar("Piece"), TypeVar("Made")


def run(
    stack: Union[Stack, str],
    workload: Optional[str] = None,
    *,
    precondition: Optional[str] = None,
    heard: Optional[Heard] = None,
    **choices: Any,
) -> Run:
    """Runs one workload on one stack, as ``flashloom run`` does.

    ``choices`` are those of :meth:`Plan.make`. ``heard`` is called from time to time
    with the requests completed and the virtual time in ns; an exception in it ends the run.
    """
    return carry_out(Plan.make(stack, workload, precondition=precondition, **choices), heard)


def compare(
    workload: str = "rocksdb",
    stacks: Optional[Sequence[Union[Stack, str]]] = None,
    preconditions: Optional[list[str]] = None,
    *,
    jobs: Optional[int] = None,
    **choices: Any,
) -> Runs:
    """Runs one workload on several stacks, as ``flashloom compare`` does.

    A policy written in Python runs on one thread at a time.
    """
    return side_by_side(Plan.compared(workload, stacks, preconditions, **choices), jobs)


def side_by_side(plans: list[Plan], jobs: Optional[int] = None) -> Runs:
    """Runs ``plans`` on threads of this process, ``jobs`` at a time, by default one a core."""
    return Runs(on_threads(plans, carry_out, jobs))


def on_threads(
    pieces: Iterable[Piece],
    work: Callable[[Piece, Callable[..., object]], Made],
    jobs: Optional[int] = None,
    heard: Optional[Callable[..., object]] = None,
) -> list[Made]:
    """Results of ``work`` on each piece. ``work`` also receives a listener, which forwards its
    arguments to ``heard``; an exception in ``heard`` ends all runs."""
    stopped: list[BaseException] = []

    def listener(*told: int) -> None:
        if stopped:
            raise stopped[0]
        if heard is None:
            return
        try:
            heard(*told)
        except BaseException as why:
            stopped.append(why)
            raise

    with ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        runs = [pool.submit(work, piece, listener) for piece in pieces]
        try:
            return results(runs)
        except BaseException as why:
            # Active runs end at the next call of their listener; waiting ones never start.
            stopped.append(why)
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def results(runs: list[Future[Made]]) -> list[Made]:
    """The results of all runs; raises the exception of the first run to fail."""
    failed = next((run for run in as_completed(runs) if run.exception() is not None), None)
    return [run.result() for run in ([failed] if failed else runs)]


def carry_out(plan: Plan, heard: Optional[Heard] = None) -> Run:
    """Runs ``plan`` in the calling thread."""
    begin = time.perf_counter()
    record = json.loads(_native.run(plan.document, plan.victim, plan.placement, heard))
    record["wall_time_s"] = time.perf_counter() - begin
    record["peak_rss_bytes"] = peak_rss_bytes()
    return Run(record)


def peak_rss_bytes() -> int:
    """Peak resident memory of this process in bytes; 0 if the platform does not report it."""
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # `ru_maxrss` is in KiB, except on macOS, where it is in bytes.
    return most if sys.platform == "darwin" else most * 1024
