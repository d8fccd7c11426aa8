"""What every test starts from."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def path_of_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target in a file makes its folder importable: in a run of the command for good, in a test for that test."""
    monkeypatch.setattr("sys.path", [*sys.path])
