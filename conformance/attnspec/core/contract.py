"""A contract: what a subject must take, in words. `causal window D128 T4096 float16`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from attnspec.core.errors import UsageError, hint
from attnspec.core.keywords import OFF
from attnspec.core.nouns import OTHER_DTYPE_NAMES, DType
from attnspec.core.refusal import AXES
from attnspec.core.sizes import SIZE

CONTRACT = "contract"
"""The theme of the clauses that a contract makes: `contract.D128`."""

ALL = "all"
"""The word that stands for all others together: `contract.all`."""

MOST: Mapping[str, int] = {"B": 1024, "H": 1024, "Hkv": 1024, "T": 8192, "S": 8192, "D": 1024, "Dv": 1024}
"""The largest size of each axis that is put."""


@dataclass(frozen=True, slots=True)
class Contract:
    """What a subject must take. sizes: by the word, the axis and its size: `D128` is (D, 128)."""

    words: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    dtypes: tuple[DType, ...] = ()
    sizes: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def largest(self) -> Mapping[str, int]:
        """The largest size that is named of each axis that is named."""
        return dict(sorted(self.sizes.values()))  # of an axis the last, and largest, stands

    @property
    def is_plural(self) -> bool:
        """Whether there is more than one thing to be taken together."""
        return len(self.keywords) + len(self.largest) > 1


def read_contract(text: str) -> Contract:
    """The contract of these words: keywords, dtypes, and sizes as D128. Raises UsageError with the nearest word."""
    words = tuple(dict.fromkeys(text.replace(",", " ").split()))
    sizes = {word: _size(word) for word in words if word not in OFF and word not in _DTYPES}
    contract = Contract(words, tuple(word for word in words if word in OFF),
                        tuple(DType(word) for word in words if word in _DTYPES), sizes)
    _check_heads(contract)
    return contract


_DTYPES = tuple(dtype.value for dtype in DType)


def _size(word: str) -> tuple[str, int]:
    match = SIZE.fullmatch(word)
    if match is None or match[1] not in MOST:
        if match and word.casefold() not in OTHER_DTYPE_NAMES:
            known = {axis: AXES[axis] for axis in MOST}
            raise UsageError(f"{word!r} of the contract names no axis.{hint(match[1], known)}")
        raise UsageError(f"{word!r} is not a word of a contract.{hint(word, (*OFF, *_DTYPES))} Words are keywords, "
                         "dtypes, and sizes such as D128.")
    axis, size = match[1], int(match[2])
    if not 1 <= size <= MOST[axis]:
        raise UsageError(f"{word!r} of the contract: {axis} can be from 1 to {MOST[axis]}.")
    return axis, size


def _check_heads(contract: Contract) -> None:
    """Raise UsageError where query heads cannot be shared out among the key/value heads."""
    H, Hkv = contract.largest.get("H"), contract.largest.get("Hkv")
    if H and Hkv and H % Hkv:
        raise UsageError(f"the contract has H{H} and Hkv{Hkv}, and {Hkv} does not divide {H}. Name others.")
