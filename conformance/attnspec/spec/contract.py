"""A contract: what a subject must take, in words (`causal window D128 T4096 float16`), and the clauses it makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from attnspec.core.errors import FileLocation, UsageError, hint
from attnspec.core.keywords import KEYWORDS, OFF
from attnspec.core.nouns import OTHER_DTYPE_NAMES, DType, Level
from attnspec.core.refusal import AXES
from attnspec.core.sizes import SIZE
from attnspec.spec.clause import Clause, Word

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


# The clauses of a contract, beside those of the spec


WHERE = FileLocation("--must-take")


def contract_clauses(contract: Contract, *, is_whole: bool = False) -> tuple[Clause, ...]:
    """Makes a clause for each word, and one for all together: where that is more than one thing, or is_whole."""
    said = dict(_contract_sentences(contract, is_whole=is_whole or contract.is_plural))
    return tuple(_clause(word, said[word]) for word in (*contract.words, ALL) if word in said)


def contract_id(word: str) -> str:
    """The id of a word's clause."""
    return f"{CONTRACT}.{word}"


def word_of(clause: str) -> str:
    """The word of a contract that a clause is for; empty for a clause of the law."""
    theme, _, word = clause.partition(".")
    return word if theme == CONTRACT else ""


def is_put_at(clause: str, dtype: DType) -> bool:
    """Whether a clause of the contract is put at this dtype: a dtype of its own at no other."""
    word = word_of(clause)
    return word == dtype.value or word not in {each.value for each in DType}


def _contract_sentences(contract: Contract, *, is_whole: bool) -> Iterator[tuple[str, str]]:
    yield from ((name, f"The contract: {KEYWORDS[name].promise}; it is taken.") for name in contract.keywords)
    yield from ((dtype.value, f"The contract: {dtype.value} is taken.") for dtype in contract.dtypes)
    yield from ((word, f"The contract: {axis} = {size} is taken ({AXES[axis]}).")
                for word, (axis, size) in contract.sizes.items())
    if is_whole:
        yield ALL, f"The contract: all of it is taken together ({' '.join(contract.words)})."


def _clause(word: str, says: str) -> Clause:
    return Clause(
        id=contract_id(word), theme=CONTRACT, level=Level.MUST, profile="core", says=says, formula="", because=(),
        needs=frozenset(), problem="", given=Word(CONTRACT, {}, WHERE), draw={}, runs={}, then=(), refuted_by=(),
        note="", where=WHERE)
