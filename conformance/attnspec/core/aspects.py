"""The aspects of attention: one folder each, with all that the rest of attnspec asks of it.

A folder of `aspects` may have these files, each of which holds what its name says:

- `keyword.py`: the keywords as plain data (`KEYWORDS`);
- `mathematics.py`: formula, visibility, bound and derivative (`MATHEMATICS`);
- `words.py`: its words of the spec language (`TRANSFORMS`);
- `questions.py`: what a probe asks about it (`QUESTIONS`);
- `faults.py`: its mistakes, and its stage in the attention that they change (`FAULTS`, `STAGE`).

What needs a part of all aspects loads it here, by name, and knows no aspect.
"""

from __future__ import annotations

import functools
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

ASPECTS = ("window", "softcap")
"""By folder, in the order in which keywords are listed and stages run. A new aspect is a folder, and its name here."""


@functools.cache
def load_parts(part: str) -> tuple[ModuleType, ...]:
    """This part of every aspect that has one, such as each `mathematics.py`."""
    names = (f"attnspec.aspects.{aspect}.{part}" for aspect in ASPECTS)
    return tuple(import_module(name) for name in names if find_spec(name))
