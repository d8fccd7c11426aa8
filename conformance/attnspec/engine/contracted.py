"""Whether a subject takes what a contract says: each word put in a small problem, and all of them in one."""

from __future__ import annotations

from dataclasses import replace

from attnspec.core.declaration import Limits
from attnspec.core.keywords import BESIDE, VALUED
from attnspec.core.nouns import DType, Level, Verdict
from attnspec.problems.demand import nearest_sizes
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Recipe, Sizes
from attnspec.record.outcome import Evidence, Outcome
from attnspec.spec.contract import ALL, Contract, contract_id
from attnspec.subjects.interview import value_for
from attnspec.subjects.subject import Subject, SubjectDied, SubjectRaised, UnusableAnswer

SMALL = Sizes(B=1, H=1, Hkv=1, T=16, S=16, D=16, Dv=16)
MOST_SCORES, MOST_WORK = 2**27, 2**34
"""Scores (B·H·T·S) and multiply-adds of all words together: what is larger is put word by word only."""

_FOLLOWS = {"T": "S", "S": "T", "D": "Dv", "Dv": "D", "H": "Hkv", "Hkv": "H"}
"""Axes that are as long as one that is named, unless they are named themselves."""


def try_word(subject: Subject, contract: Contract, word: str, dtype: DType) -> Outcome:
    """Whether the subject takes one word of the contract at a dtype; of a dtype, whether it takes that."""
    if dtype not in subject.declaration.dtypes:
        reason = subject.declaration.left_out.get(dtype, f"{subject.id} does not take {dtype.value}")
        verdict = Verdict.VIOLATED if word == dtype.value else Verdict.INAPPLICABLE
        return _outcome(subject, word, dtype, verdict,
                        reason=_format_broken_word(word, reason) if word == dtype.value else reason)
    if word in {each.value for each in contract.dtypes if each is not dtype}:
        return _outcome(subject, word, dtype, Verdict.INAPPLICABLE, reason=f"it is tested at {word}")
    if word != ALL and (lacking := subject.lacks(frozenset({word} & {*contract.keywords}))):
        return _outcome(subject, word, dtype, Verdict.VIOLATED, reason=_format_broken_word(word, lacking))
    recipe = recipe_for(contract, word, subject.declaration.limits)
    if word == ALL and (reason := _too_large(recipe.sizes) or _find_word_refused_alone(subject, contract, dtype)):
        return _outcome(subject, word, dtype, Verdict.INAPPLICABLE, reason=reason)
    return try_recipe(subject, word, dtype, recipe)


def try_recipe(subject: Subject, word: str, dtype: DType, recipe: Recipe) -> Outcome:
    """Whether the subject takes this one problem: it answers with an array of the right shape, right or wrong."""
    problem = make_problem(recipe, dtype)
    if reason := subject.refuses(problem):
        return _outcome(subject, word, dtype, Verdict.VIOLATED, recipe, reason=_format_broken_word(word, reason))
    try:
        subject.answer(problem)
    except (SubjectRaised, UnusableAnswer) as raised:
        trace = raised.traceback if isinstance(raised, SubjectRaised) else ""
        return _outcome(subject, word, dtype, Verdict.VIOLATED, recipe, reason=_format_broken_word(word, str(raised)),
                        trace=trace)
    except SubjectDied as died:
        return _outcome(subject, word, dtype, died.verdict, recipe, reason=str(died), trace=died.traceback)
    return _outcome(subject, word, dtype, Verdict.HELD)


def recipe_for(contract: Contract, word: str, limits: Limits) -> Recipe:
    """The problem that has what the word says, and else what the subject is known to take."""
    keywords = set(contract.keywords) if word == ALL else {word} & set(contract.keywords)
    keywords = keywords.union({"causal"} if limits.causal_only else (), *map(limits.brings, keywords))
    keywords |= {BESIDE[name] for name in keywords & BESIDE.keys()}
    asked = contract.largest if word == ALL else _named_by(contract, word)
    followed = {_FOLLOWS[axis]: size for axis, size in asked.items() if axis in _FOLLOWS}
    return _recipe(replace(nearest_sizes(SMALL, limits), **{**followed, **asked}), frozenset(keywords), limits)


def _named_by(contract: Contract, word: str) -> dict[str, int]:
    """The size that a word says, and that of the axis that would follow it, where another word says that one."""
    if word not in contract.sizes:
        return {}
    axis, size = contract.sizes[word]
    partner = _FOLLOWS.get(axis, "")
    return {axis: size} | {each: most for each, most in contract.largest.items() if each == partner}


def _recipe(sizes: Sizes, keywords: frozenset[str], limits: Limits) -> Recipe:
    values = {name: value_for(name, limits) for name in keywords & VALUED.keys()}
    scale = value_for("scale", limits) if "scale" in keywords else 1.0
    mask = "all_true" if "mask" in keywords else "none"
    return Recipe(sizes, ("normal",), mask, keywords, 0, scale=scale, values=values)


def _too_large(sizes: Sizes) -> str:
    scores = sizes.B * sizes.H * sizes.T * sizes.S
    if scores <= MOST_SCORES and scores * (sizes.D + sizes.Dv) <= MOST_WORK:
        return ""
    return f"all of it together is too large to test here ({sizes}); each word is tested by itself"


def _find_word_refused_alone(subject: Subject, contract: Contract, dtype: DType) -> str:
    """Why it says nothing more that all is refused together: a word is refused by itself; empty if none is."""
    alone = (try_word(subject, contract, word, dtype) for word in (*contract.keywords, *contract.sizes))
    refused = next((each.clause for each in alone if each.verdict is not Verdict.HELD), "")
    return f"{refused} fails already, on its own" if refused else ""


def _format_broken_word(word: str, why: str) -> str:
    """That the contract is broken, and by what."""
    return f"the contract says {'all of it together' if word == ALL else word}: {why}"


def _outcome(subject: Subject, word: str, dtype: DType, verdict: Verdict, recipe: Recipe | None = None, *,
             reason: str = "", trace: str = "") -> Outcome:
    evidence = Evidence(reason, str(recipe.sizes), recipe.text, traceback=trace) if recipe else None
    return Outcome(subject.id, contract_id(word), dtype, Level.MUST, verdict, reason,
                   int(recipe is not None or verdict is Verdict.HELD), evidence=evidence)
