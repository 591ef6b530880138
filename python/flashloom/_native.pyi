"""The compiled half: documents in, documents out."""

from collections.abc import Callable, Sequence
from typing import Optional

_Chosen = tuple[Optional[str], Optional[str], list[str], Optional[int], Optional[str]]

class Error(Exception): ...

class Line:
    line: int
    valid: int
    pages: int
    age: int
    erases: int

class Write:
    page: int
    pages: int
    handle: int
    handles: int
    age: Optional[int]

def stacks() -> list[tuple[str, str]]: ...
def drives() -> list[tuple[str, str]]: ...
def workloads() -> list[tuple[str, str, list[tuple[str, str, str, str]]]]: ...
def metrics() -> list[tuple[str, str, str, str]]: ...
def plan(stack: str, workload: Optional[str], past: Optional[str], chosen: _Chosen) -> str: ...
def compared(
    workload: str,
    stacks: Optional[Sequence[str]],
    pasts: Optional[Sequence[str]],
    chosen: _Chosen,
) -> list[str]: ...
def plan_file(path: str) -> list[str]: ...
def drive(name: str, size: Optional[str], set: list[str]) -> str: ...
def run(
    plan: str,
    victim: Optional[Callable[[list[Line]], Line]] = None,
    placement: Optional[Callable[[Write], int]] = None,
    heard: Optional[Callable[[int, int], object]] = None,
) -> str: ...
