"""Flashloom: flash drives with many interfaces, simulated and compared.

    import flashloom as fl

    runs = fl.compare("varmail:ops=20000", stacks=["ext4@block", "ext4@fdp"])
    runs.to_pandas()

A run is a function of its plan: the same plan gives the same record on every machine,
and on the command line. Plans and records are values that can be stored and sent.
"""

from ._native import Error, Line, Write
from .devices import Completion, Device
from .machines import MemoryPlan, memory
from .names import (
    Named,
    Parameter,
    WorkloadEntry,
    designs,
    drives,
    metrics,
    programs,
    stacks,
    workloads,
)
from .plans import Drive, Plan, Stack, Workload
from .records import MemoryRun, MemoryRuns, Run, Runs, load
from .running import compare, run
from .sweeps import sweep

__all__ = [
    "Completion",
    "Device",
    "Drive",
    "Error",
    "Line",
    "MemoryPlan",
    "MemoryRun",
    "MemoryRuns",
    "Named",
    "Parameter",
    "Plan",
    "Run",
    "Runs",
    "Stack",
    "Workload",
    "WorkloadEntry",
    "Write",
    "compare",
    "designs",
    "drives",
    "load",
    "memory",
    "metrics",
    "programs",
    "run",
    "stacks",
    "sweep",
    "workloads",
]
