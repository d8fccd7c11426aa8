"""A doubt about a mask whose documentation says the opposite of what it does: True keeps a key, or hides it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from attnspec.scaffold.examined import ExaminedCallable
from attnspec.scaffold.form import Binding, CallForm
from attnspec.scaffold.lookup import normalise_name

_HIDING_WORDS = re.compile(
    r"\b(?:hid(?:e|es|den)|pad(?:s|ded|ding)?|ignored?|exclud\w*|drop\w*|masked|"
    r"(?:not|never|no|cannot|can't|isn't|without) (?:be )?(?:\w+ "
    r")?(?:attend|attention|look|see|visible|allow|kept|keep|"
    r"valid|used|take part|real)\w*|where not\b|disallow\w*|forbid\w*|invisible|future)", re.IGNORECASE)
_KEEPING_WORDS = re.compile(
    r"\b(?:keep\w*|kept|attend\w*|attention|look\w*|see|seen|visible|valid|allow\w*|real|used|take part|"
    r"not (?:be )?(?:hidden|masked|padded|padding|ignored))\b", re.IGNORECASE)
_VALUE_WORD = re.compile(r"\b(?P<true>true|1|ones?)\b|\b(?P<false>false|0|zeros?)\b", re.IGNORECASE)
_LONGEST_REACH = 70
"""Characters behind a value in which it has to be said what it means."""
_KEEPING_NAME = re.compile(r"^(?:keep|visible|allowed|can_attend|may_attend)(?:_|$)")
_HIDING_NAME = re.compile(r"^(?:hide|hidden|is_pad|is_padding|ignore|exclude)(?:_|$)")
_KEPT_MEANING, _HIDDEN_MEANING = "True where a query may attend", "True where a key is hidden"
_NUMBER_MEANING = "1 where a query may attend, else 0"
"""How a reading of a mask begins that says which of its values hides a key."""


def warn_of_inverted_mask(form: CallForm, callee: ExaminedCallable) -> CallForm:
    """The form; with its mask handed on as its name or documentation says, and a warning, where it does the
    opposite.
    """
    passed = next((each for each in form.bindings if each.keyword == "mask" and _find_polarity(each) is not None), None)
    if passed is None:
        return form
    says = list(_list_polarity_evidence(passed.parameter, callee, _is_only_mask(passed, callee)))
    if not says or len({keeps for keeps, _ in says}) > 1 or says[0][0] is _find_polarity(passed):
        return form
    wanted = _KEPT_MEANING if says[0][0] else _HIDDEN_MEANING
    warning = (f"MASK INVERTED: {says[0][1]}, so that {passed.parameter} is {wanted}; it does the opposite. The mask "
               f"is handed on as that says: attnspec check says what is wrong. If it is meant as it is, exchange the "
               "mask in the adapter.")
    turned = replace(passed, expression=_invert_mask(passed.expression), says=passed.says.replace(
        passed.says.partition(",")[0], wanted, 1))
    return replace(form, bindings=tuple(turned if each is passed else each for each in form.bindings),
                   warnings=(warning, *form.warnings))


def _find_polarity(passed: Binding) -> bool | None:
    """Whether True, or 1, keeps a key, as it was found; None for a mask that is added."""
    if passed.says.startswith((_KEPT_MEANING, _NUMBER_MEANING)):
        return True
    return False if passed.says.startswith(_HIDDEN_MEANING) else None


def _invert_mask(expression: str) -> str:
    """The Python of a mask the other way round."""
    if expression.startswith("~"):
        return expression[1:]
    inner, dot, rest = re.fullmatch(r"(.*?)((?:\.to\(|\.astype\()?)(.*)", expression,
                                    re.DOTALL).groups()  # type: ignore[union-attr]  # it matches all
    begin, cast = (expression, "") if not dot else (inner, dot + rest)
    return f"(~{begin}){cast}" if cast else f"~{begin}"


def _is_only_mask(passed: Binding, callee: ExaminedCallable) -> bool:
    """Whether no other parameter of the call is called a mask, so that the word alone means this one."""
    listed = callee.call_parameters if callee.is_class else callee.parameters
    return not any("mask" in normalise_name(each.name) for each in listed if each.name != passed.parameter)


def _list_polarity_evidence(parameter: str, callee: ExaminedCallable, is_only: bool) -> Iterator[tuple[bool, str]]:
    """Whether True keeps a key, and where that is said."""
    name = normalise_name(parameter)
    for pattern, keeps in ((_KEEPING_NAME, True), (_HIDING_NAME, False)):
        if pattern.search(name):
            yield keeps, f"its name is {parameter}"
    about = re.compile(rf"\b{re.escape(parameter)}\b" + (r"|\bmask\b" if is_only else ""), re.IGNORECASE)
    for sentence in _list_sentences(callee):
        if about.search(sentence):
            meant = {keeps for keeps in _read_values(sentence) if keeps is not None}
            if len(meant) == 1:
                yield meant.pop(), f"what is written of it says {sentence!r}"


def _list_sentences(callee: ExaminedCallable) -> Iterator[str]:
    """Of docstrings, sentence by sentence; of the code, each line with a comment."""
    for doc in callee.docs:
        parts = re.split(r"[.;]\s|[.;]$|\n\s*\n|\n(?=\s*\w+\s*[:(])", doc)
        yield from (" ".join(each.split()) for each in parts if each.strip())
    for line in callee.source.splitlines():
        code, mark, comment = line.partition("#")
        if mark and comment.strip():
            yield f"{code.strip()}  # {comment.strip()}" if code.strip() else comment.strip()


def _read_values(sentence: str) -> Iterator[bool | None]:
    """Of each value that a sentence says the meaning of, whether it says that True keeps a key."""
    told = sentence.rpartition("  # ")[2]  # what the code does is no word about it
    found = list(_VALUE_WORD.finditer(told))
    for at, value in enumerate(found):
        tail = told[value.end():found[at + 1].start() if found[at + 1:] else None][:_LONGEST_REACH]
        hides, keeps = _HIDING_WORDS.search(tail), _KEEPING_WORDS.search(tail)
        if not hides and not keeps:
            continue
        is_kept = not hides or (keeps is not None and keeps.start() < hides.start() and keeps.group().startswith("not"))
        yield is_kept is bool(value["true"])
