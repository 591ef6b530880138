"""Workers of a sweep: processes of this machine, or tasks of Ray.

Invariant: an outcome is the record of a plan, or an error message of one sentence.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, Optional, Union

from ._native import Error
from .extras import extra
from .machines import MemoryPlan
from .plans import Plan
from .records import MemoryRun, Run
from .running import carry_out

AnyPlan = Union[Plan, MemoryPlan]
Outcome = Union[Run, MemoryRun, str]

# Event of the processes of a pool, set once the sweep is over; None in other processes.
stopped: Any = None


def outcome_of(plan: AnyPlan) -> Outcome:
    """Carries out ``plan`` in this process."""
    try:
        return plan.run(heard) if isinstance(plan, MemoryPlan) else carry_out(plan, heard)
    except Error as failure:
        return str(failure)


def heard(*_told: int) -> None:
    """Ends a run whose sweep is over."""
    if stopped is not None and stopped.is_set():
        raise KeyboardInterrupt


def over_processes(plans: list[AnyPlan], count: Optional[int]) -> Iterator[tuple[int, Outcome]]:
    """Outcomes in order of completion, from up to ``count`` processes.

    The processes are spawned, because a process with threads must not be forked. A program
    that sweeps therefore needs ``if __name__ == "__main__":``.
    """
    context = multiprocessing.get_context("spawn")
    over = context.Event()
    count = min(count or os.cpu_count() or 1, len(plans))
    with ProcessPoolExecutor(count, context, joins, (over,)) as pool:
        numbers = {pool.submit(outcome_of, plan): n for n, plan in enumerate(plans)}
        try:
            for done in as_completed(numbers):
                yield numbers[done], done.result()
        except BaseException:
            over.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def joins(over: Any) -> None:
    """Initializes a process of the pool: it ignores interrupts, which its parent handles."""
    global stopped
    stopped = over
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def over_ray(
    plans: list[AnyPlan], count: Optional[int], address: Union[bool, str]
) -> Iterator[tuple[int, Outcome]]:
    """Outcomes in order of completion, from tasks of a Ray cluster, up to ``count`` at a time.

    The package must be installed on the machines of the cluster, and files must have the same
    names there.
    """
    ray = extra("ray", "ray", "a sweep over a cluster")
    if not ray.is_initialized():
        ray.init(address=address if isinstance(address, str) else None)
    task = ray.remote(num_cpus=1)(outcome_of)
    waiting = list(enumerate(plans))[::-1]
    count = count or max(1, int(ray.cluster_resources().get("CPU", 1)))
    numbers: dict[Any, int] = {}
    try:
        while waiting or numbers:
            while waiting and len(numbers) < count:
                number, plan = waiting.pop()
                numbers[task.remote(plan)] = number
            done, _ = ray.wait(list(numbers), num_returns=1)
            for reference in done:
                yield numbers.pop(reference), ray.get(reference)
    finally:
        for reference in numbers:
            ray.cancel(reference)
