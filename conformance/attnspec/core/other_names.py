"""What libraries call the keywords, and so what a parameter that attnspec does not know may be."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from attnspec.core.keywords import KEYWORDS


def slip_of(name: str, known: Iterable[str]) -> str:
    """The known name that `name` is a slip of the pen from: one letter more, less or other, or two swapped; else ""."""
    return next((other for other in known if _is_slip(name, other)), "")


def _is_slip(written: str, meant: str) -> bool:
    same = len(os.path.commonprefix((written, meant)))  # noqa: RUF071  (letter by letter is what is meant)
    wrote, means = written[same:], meant[same:]
    is_swap = wrote[:2] == means[:2][::-1] and wrote[2:] == means[2:]
    return wrote != means and (is_swap or wrote[1:] == means[1:] or wrote[1:] == means or wrote == means[1:])


OTHER_NAMES: Mapping[str, tuple[str, ...]] = {
    word.name: word.other_names for word in KEYWORDS.values() if word.other_names}
"""What libraries call a keyword, the usual name first. It may mean another thing there: a mask may be True to hide."""


_SHORT = 3
"""Letters of a name that is one letter away from too many others (`out` from `dout`) to be a slip of one."""


CAUSAL = "causal"
_CAUSAL_FLAG = re.compile(r"((is|use|do|with|apply|make|enable)_)?causal(_mask|_masking|_attention|_attn)?")


def is_causal_flag(name: str) -> bool:
    """Whether a flag of this name can only be the one that makes attention causal."""
    return name != CAUSAL and (name in OTHER_NAMES[CAUSAL] or bool(_CAUSAL_FLAG.fullmatch(name)))


def keyword_for(name: str) -> str:
    """The keyword for what others call `name`, also where that is mistyped; empty if there is none."""
    return next((word for word, others in OTHER_NAMES.items()
                 if name in others or (len(name) > _SHORT and slip_of(name, others))), "")


def meant_by(name: str) -> str:
    """The keyword that a parameter is, by its own name or by another that it goes by; empty if there is none."""
    return name if name in KEYWORDS else keyword_for(name)


def list_defaults(defaults: Mapping[str, str]) -> str:
    """Parameters that are left at their defaults, for a reader: `block=64`, and what attnspec calls them if it does."""
    return ", ".join(f"{name}={default}{_ours(name)}" for name, default in defaults.items())


def _ours(name: str) -> str:
    if name in KEYWORDS:
        return " (attnspec's keyword: hand it on in the adapter)"
    word = keyword_for(name)
    return f" (attnspec's keyword is {word}: rename it, or wrap it with `attnspec init`)" if word else ""
