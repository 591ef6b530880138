"""A drive that its caller steps: commands in, time on, completions out.

Invariant: the same calls give the same completions, at the same times. Times are in ns of the
drive's virtual clock, addresses and lengths in sectors of 512 bytes; commands carry no data.
"""

from __future__ import annotations

import heapq
import json
from collections import deque
from collections.abc import Coroutine, Generator
from typing import Any, NamedTuple, Optional, Union

from . import _native
from ._native import Error
from .plans import Plan, Stack
from .records import Run


class Completion(NamedTuple):
    """The end of a command."""

    id: int
    """Number of the command, from :meth:`Device.submit`."""
    submitted: int
    """Time of its submission in ns."""
    completed: int
    """Time in ns at which the host had taken its completion in."""
    error: Optional[str]
    """The drive's reason for failing the command; None if it succeeded."""
    sector: Optional[int]
    """First sector that an append has written, else None."""

    @property
    def latency(self) -> int:
        """Time from submission to completion in ns."""
        return self.completed - self.submitted


class _Wish:
    """What a coroutine of :meth:`Device.run` waits for: a command, or a time."""

    def __init__(self, command: Optional[int] = None, until: int = 0):
        self.command, self.until = command, until

    def __await__(self) -> Generator[_Wish, Any, Any]:
        return (yield self)


class Device:
    """A drive behind a simulated host, which the caller steps.

        device = fl.Device("raw@fdp", size="1GiB", precondition="aged")
        device.submit(0, "write", sector=0, sectors=8, handle=1)
        device.advance(1_000_000)
        device.completions()

    Stack, precondition and ``choices`` are those of :meth:`Plan.make`; the host of the stack is
    ``raw``. A device is used by the thread that made it.
    """

    def __init__(
        self,
        stack: Union[Plan, Stack, str] = "raw@block",
        *,
        precondition: Optional[str] = None,
        **choices: Any,
    ):
        plan = _planned(stack, precondition, choices)
        self._begin(_native.Stepped(plan.document, plan.victim, plan.placement))

    def _begin(self, native: _native.Stepped) -> None:
        self._inner = native
        # Completions that no coroutine awaited.
        self._kept: list[Completion] = []

    @classmethod
    def _of(cls, native: _native.Stepped) -> Device:
        device = cls.__new__(cls)
        device._begin(native)
        return device

    def beside(
        self,
        stack: Union[Plan, Stack, str] = "raw@block",
        *,
        precondition: Optional[str] = None,
        **choices: Any,
    ) -> Device:
        """Another drive at the same host, which shares the clock and the processor cores.

        A step or an advance of either runs the events of both. No command may be in flight.
        """
        plan = _planned(stack, precondition, choices)
        return self._of(self._inner.beside(plan.document, plan.victim, plan.placement))

    def fork(self) -> Device:
        """An independent copy of an idle drive, at time 0, as it is after a power cycle.

        On a drive with a volatile write cache a flush must follow the last write.
        """
        return self._of(self._inner.fork())

    @property
    def now(self) -> int:
        """The time of the clock in ns."""
        return self._inner.now()

    @property
    def sectors(self) -> int:
        """Capacity in sectors of 512 bytes."""
        return self._inner.sectors()

    @property
    def in_flight(self) -> int:
        """Number of commands submitted and not completed."""
        return self._inner.in_flight()

    def next_event(self) -> Optional[int]:
        """Time of the next event in ns; None at rest. Only some events complete a command."""
        return self._inner.next_event()

    def submit(
        self,
        time: int,
        op: str,
        sector: int = 0,
        sectors: int = 0,
        *,
        handle: int = 0,
        fua: bool = False,
        origin: Optional[str] = None,
        queue: Optional[int] = None,
    ) -> int:
        """Submits a command at ``time``, at the earliest now, and returns its number.

        ``op`` is ``read``, ``write``, ``deallocate``, ``flush``, or on zones ``append``,
        ``zone-reset``, ``zone-finish``, ``zone-open`` or ``zone-close``. ``origin`` names a tenant or
        process, by which the record divides the traffic, and ``queue`` a queue pair of the host.
        """
        native = self._inner
        tag = 0 if origin is None else native.origin(origin)
        try:
            return native.submit(time, (op, sector, sectors), (handle, fua, tag, queue))
        except OverflowError as why:
            raise Error(f"{op}: a number is out of range: {why}") from None

    def step(self) -> bool:
        """Runs the next event. Returns False if no event is left."""
        return self._inner.step()

    def advance(self, time: int) -> None:
        """Runs all events up to and including ``time``, and sets the clock to it."""
        try:
            self._inner.advance(time)
        except OverflowError as why:
            raise Error(f"time: a number is out of range: {why}") from None

    def completions(self) -> list[Completion]:
        """Takes the completions since the last call, the earliest first."""
        kept, self._kept = self._kept, []
        return kept + self._taken()

    def _taken(self) -> list[Completion]:
        return [Completion(*done) for done in self._inner.completions()]

    def counters(self) -> dict[str, Union[int, float]]:
        """Traffic and work since the drive was made, under the names of the record."""
        whole, waf = self._inner.counters()
        return dict(whole) | {"waf": waf}

    def finish(self, workload: str = "stepped") -> Run:
        """Powers an idle drive off, and returns the record of all its commands.

        It is that of a run called ``workload``, with wall time and memory 0.
        """
        return Run(json.loads(self._inner.finish(workload)))

    def command(self, op: str, sector: int = 0, sectors: int = 0, **manner: Any) -> _Wish:
        """A command submitted now, for a coroutine of :meth:`run` to await its completion."""
        return _Wish(self.submit(self.now, op, sector, sectors, **manner))

    def sleep(self, span: int) -> _Wish:
        """A pause of ``span`` ns, for a coroutine of :meth:`run` to await."""
        return _Wish(until=self.now + span)

    def run(self, *coroutines: Coroutine[Any, Any, Any]) -> list[Any]:
        """Runs coroutines on the drive's clock until all have ended, and returns their results.

        They await :meth:`command` and :meth:`sleep`, and nothing else. Coroutines that wait for
        the same instant go on in the order in which they began to wait. An exception in one of
        them closes all others.
        """
        results: dict[int, Any] = {}
        numbers = {id(coroutine): number for number, coroutine in enumerate(coroutines)}
        ready = deque((coroutine, None) for coroutine in coroutines)
        waiting: dict[int, Coroutine[Any, Any, Any]] = {}
        alarms: list[tuple[int, int, Coroutine[Any, Any, Any]]] = []
        turns = 0
        try:
            while len(results) < len(coroutines):
                while ready:
                    coroutine, told = ready.popleft()
                    try:
                        wish = coroutine.send(told)
                    except StopIteration as end:
                        results[numbers[id(coroutine)]] = end.value
                        continue
                    if not isinstance(wish, _Wish):
                        raise Error("expected coroutines to await commands and pauses of the drive")
                    if wish.command is None:
                        turns += 1
                        heapq.heappush(alarms, (wish.until, turns, coroutine))
                    else:
                        waiting[wish.command] = coroutine
                if waiting or alarms:
                    ready.extend(self._go_on(waiting, alarms))
        finally:
            for coroutine in coroutines:
                coroutine.close()
        return [results[number] for number in range(len(coroutines))]

    def _go_on(self, waiting: dict[int, Any], alarms: list[Any]) -> list[tuple[Any, Any]]:
        """Lets time pass up to the next completion or alarm, and returns the woken coroutines."""
        event = self.next_event()
        if alarms and (event is None or alarms[0][0] < event):
            self.advance(alarms[0][0])
        elif not self.step():
            raise Error("a coroutine waits for a command that has completed before")
        woken: list[tuple[Any, Any]] = []
        for done in self._taken():
            if done.id in waiting:
                woken.append((waiting.pop(done.id), done))
            else:
                self._kept.append(done)
        while alarms and alarms[0][0] <= self.now:
            woken.append((heapq.heappop(alarms)[2], None))
        return woken


def _planned(
    stack: Union[Plan, Stack, str], precondition: Optional[str], choices: dict[str, Any]
) -> Plan:
    if isinstance(stack, Plan):
        if precondition is not None or choices:
            raise TypeError("expected no choices beside a plan, which has its own")
        return stack
    return Plan.make(stack, precondition=precondition, **choices)
