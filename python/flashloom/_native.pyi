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

class Designs:
    def __init__(
        self, designs: list[str], workload: str, profile: str, changes: list[str], seed: int
    ) -> None: ...
    def __len__(self) -> int: ...
    def run(self, turn: int, heard: Optional[Callable[[int], object]] = None) -> int: ...
    def document(self) -> str: ...

def designs() -> list[tuple[str, str]]: ...
def programs() -> list[tuple[str, str, list[tuple[str, str, str, str]]]]: ...
def stacks() -> list[tuple[str, str]]: ...
def drives() -> list[tuple[str, str]]: ...
def workloads() -> list[tuple[str, str, list[tuple[str, str, str, str]]]]: ...
def metrics() -> list[tuple[str, str, str, str]]: ...
def plan(
    stack: str, workload: Optional[str], precondition: Optional[str], chosen: _Chosen
) -> str: ...
def compared(
    workload: str,
    stacks: Optional[Sequence[str]],
    preconditions: Optional[Sequence[str]],
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
