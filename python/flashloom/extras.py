"""Packages that only some of what is here needs."""

from __future__ import annotations

import importlib
from typing import Any

from ._native import Error


def extra(package: str, name: str, purpose: str) -> Any:
    """The module of ``package``, or one sentence that says how to get it."""
    try:
        return importlib.import_module(package)
    except ImportError as missing:
        remedy = f"pip install 'flashloom[{name}]'"
        module = (missing.name or package).partition(".")[0]
        raise Error(f"{purpose} needs {module}: {remedy}") from missing
