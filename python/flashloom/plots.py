"""Plots of records, on axes of matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._native import Error
from .extras import extra
from .names import Metric, metrics

if TYPE_CHECKING:
    from .records import Runs, Table

# Nanoseconds in a second.
SECOND = 1e9


def bars(runs: Runs, name: str, ax: Any = None) -> Any:
    """A bar of one metric for each run."""
    metric = named(name)
    label = metric.label + (f" [{metric.unit}]" if metric.unit else "")
    return draw(runs, metric.column, label, ax)


def draw(runs: Table[Any], column: str, label: str, ax: Any = None) -> Any:
    """A bar of the number in ``column`` for each run."""
    values = [run.value(column) for run in runs]
    if not any(isinstance(value, (int, float)) for value in values):
        raise Error(f"{column}: no run has this number")
    ax = axes(ax)
    places = range(len(runs))
    ax.barh(list(places), [value or 0 for value in values])
    ax.set_yticks(list(places), [run.name for run in runs])
    ax.invert_yaxis()
    ax.set_xlabel(label)
    return ax


def latency(runs: Runs, ax: Any = None) -> Any:
    """The share of requests that took longer than a latency, for each run."""
    ax = axes(ax)
    for run in runs:
        points = run["latency_ns"]["cdf"]
        total = points[-1][1] if points else 0
        slower = [(ns, 1 - done / total) for ns, done in points if done < total]
        ax.step(*zip(*slower), where="post", label=run.name) if slower else None
    ax.set(xscale="log", yscale="log")
    ax.set_xlabel("latency [ns]")
    ax.set_ylabel("share of requests that took longer")
    ax.legend()
    return ax


def timeline(runs: Runs, column: str, ax: Any = None) -> Any:
    """A series over virtual time, for each run that has one."""
    ax = axes(ax)
    drawn = [run for run in runs if run["timeline"]]
    if not drawn:
        raise Error("no run has a timeline: plan it with timeline='10ms'")
    if not isinstance(drawn[0]["timeline"][0].get(column), (int, float)):
        raise Error(f"{column}: no series of a timeline is called so")
    for run in drawn:
        samples = run["timeline"]
        times = [sample["at_ns"] / SECOND for sample in samples]
        ax.plot(times, [sample[column] for sample in samples], label=run.name)
    ax.set_xlabel("virtual time [s]")
    ax.set_ylabel(column)
    ax.legend()
    return ax


def axes(ax: Any) -> Any:
    """``ax``, or new axes if it is None."""
    if ax is not None:
        return ax
    pyplot = extra("matplotlib.pyplot", "plot", "a plot")
    return pyplot.subplots(layout="constrained")[1]


def named(name: str) -> Metric:
    """The metric whose column, label or last part of a column is ``name``."""
    known = metrics()
    for of in (
        lambda metric: metric.column,
        lambda metric: metric.label,
        lambda metric: metric.column.rsplit(".", 1)[-1],
    ):
        found = [metric for metric in known if of(metric) == name]
        if found:
            return found[0]
    raise Error(f"{name}: no metric is called so; flashloom.metrics() has their names")
