"""The clauses that a contract makes, beside those of the law."""

from __future__ import annotations

from collections.abc import Iterator

from attnspec.core.contract import ALL, CONTRACT, Contract
from attnspec.core.errors import FileLocation
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import DType, Level
from attnspec.core.refusal import AXES
from attnspec.spec.clause import Clause, Word

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
