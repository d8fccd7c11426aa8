"""The text of `spec/refutations.json`, which attnspec reads (`attnspec.spec.clause`)."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping

from attnspec.core.nouns import DType
from attnspec.spec.clause import Refutations

# it names the command by its earlier name until the file is made anew: its bytes are those of a reader's checkout
_ABOUT = ("Generated; do not edit. By clause, the faults that violate it within the first cases, under the dtypes at "
          "which they do. Make it anew: attnspec refutations --write")
_WIDTH = 118
_INDENT = 4 * " "


def refutations_text(found: Refutations) -> str:
    """The matrix as the file holds it: clauses in the order of the law, faults in that of the alphabet."""
    head = {"about": _ABOUT, "effort": found.effort, "cases": found.cases, "seed": found.seed}
    lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    clauses = ",\n".join(f"  {json.dumps(clause)}: {_groups(faults)}" for clause, faults in found.convictions.items())
    return "\n".join(["{", *lines, ' "clauses": {', clauses, " }", "}"]) + "\n"


def _groups(faults: Mapping[str, tuple[DType, ...]]) -> str:
    """A group for each set of dtypes, those of most dtypes first."""
    order = list(DType)
    groups = sorted(set(faults.values()), key=lambda dtypes: (-len(dtypes), [order.index(each) for each in dtypes]))
    told = (f'   "{" ".join(dtype.value for dtype in dtypes)}": [\n{_wrap_names(faults, dtypes)}]' for dtypes in groups)
    return "{\n" + ",\n".join(told) + "\n  }" if groups else "{}"


def _wrap_names(faults: Mapping[str, tuple[DType, ...]], dtypes: tuple[DType, ...]) -> str:
    names = ", ".join(json.dumps(name) for name in sorted(faults) if faults[name] == dtypes)
    return textwrap.fill(names, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT, break_long_words=False)
