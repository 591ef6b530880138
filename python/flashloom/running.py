"""One run, and runs side by side in this process."""

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
    """What ``flashloom run`` measures: one workload on one stack.

    ``choices`` are those of :meth:`Plan.make`. ``heard`` is called from time to time
    with the requests completed and the virtual time in ns; what it raises ends the run.
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
    """What ``flashloom compare`` measures: one workload on several stacks.

    A policy that is written in Python runs on one thread at a time.
    """
    return side_by_side(Plan.compared(workload, stacks, preconditions, **choices), jobs)


def side_by_side(plans: list[Plan], jobs: Optional[int] = None) -> Runs:
    """Runs ``plans`` on threads of this process, one a core if nothing is said."""
    return Runs(on_threads(plans, carry_out, jobs))


def on_threads(
    pieces: Iterable[Piece],
    work: Callable[[Piece, Callable[..., object]], Made],
    jobs: Optional[int] = None,
    heard: Optional[Callable[..., object]] = None,
) -> list[Made]:
    """What ``work`` makes of each piece and of a listener, which passes what it hears on to
    ``heard``; what that raises ends them all."""
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
            # Those under way end at the next call of their listener, the others never begin.
            stopped.append(why)
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def results(runs: list[Future[Made]]) -> list[Made]:
    """What came out of each, or what the first that failed has raised."""
    failed = next((run for run in as_completed(runs) if run.exception() is not None), None)
    return [run.result() for run in ([failed] if failed else runs)]


def carry_out(plan: Plan, heard: Optional[Heard] = None) -> Run:
    """Runs ``plan`` here and now."""
    begin = time.perf_counter()
    record = json.loads(_native.run(plan.document, plan.victim, plan.placement, heard))
    record["wall_time_s"] = time.perf_counter() - begin
    record["peak_rss_bytes"] = peak_rss_bytes()
    return Run(record)


def peak_rss_bytes() -> int:
    """The most memory that this process has held; 0 where nobody tells."""
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # In KiB, and on macOS in bytes.
    return most if sys.platform == "darwin" else most * 1024
