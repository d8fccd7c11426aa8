"""docs/paths.md: each path that it calls judged is registered, and each variant of a manifest stands there."""

from __future__ import annotations

import re

from attnspec.subjects.registry import registered_subjects
from helpers.places import CHECKOUT

NAMED = set(re.findall(r"`(\w+/\w+(?: \[\w+\])?)`", (CHECKOUT / "docs" / "paths.md").read_text(encoding="utf-8")))
BACKENDS = ("_jax", "_numpy", "_tensorflow")
"""Of Keras the page names the subjects on one backend; the others are the same."""


def paths() -> set[str]:
    known = registered_subjects().values()
    return {each.id for each in known} | {
        f"{each.id} [{variant}]" for each in known for variant in each.declaration.variants}


def test_every_path_that_the_page_names_is_registered() -> None:
    assert NAMED - paths() == set()


def test_every_variant_stands_on_the_page() -> None:
    variants = {path for path in paths() if path.endswith("]") and not path.partition(" ")[0].endswith(BACKENDS)}
    assert variants - NAMED == set()
