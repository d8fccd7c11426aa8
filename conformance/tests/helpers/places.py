"""Where things of the checkout are."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parents[1]
CHECKOUT = TESTS.parents[1]
SMALL_SPEC = TESTS / "small_spec"
STUBS = TESTS / "stubs"
