"""Optional packages, imported by the functions that need them."""

from __future__ import annotations

import importlib
from typing import Any

from ._native import Error


def extra(package: str, name: str, purpose: str) -> Any:
    """Imports ``package``; if it is missing, raises an error with the command to install it."""
    try:
        return importlib.import_module(package)
    except ImportError as missing:
        remedy = f"pip install 'flashloom[{name}]'"
        module = (missing.name or package).partition(".")[0]
        raise Error(f"{purpose} needs {module}: {remedy}") from missing
