"""A doubt about a mask whose documentation says the opposite of what it does: True keeps a key, or hides it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from attnspec.scaffold.examined import Examined
from attnspec.scaffold.form import CallForm, Passed
from attnspec.scaffold.lookup import plain

_HIDES = re.compile(
    r"\b(?:hid(?:e|es|den)|pad(?:s|ded|ding)?|ignored?|exclud\w*|drop\w*|masked|"
    r"(?:not|never|no|cannot|can't|isn't|without) (?:be )?(?:\w+ "
    r")?(?:attend|attention|look|see|visible|allow|kept|keep|"
    r"valid|used|take part|real)\w*|where not\b|disallow\w*|forbid\w*|invisible|future)", re.IGNORECASE)
_KEEPS = re.compile(r"\b(?:keep\w*|kept|attend\w*|attention|look\w*|see|seen|visible|valid|allow\w*|real|used|take "
                    r"part|"
                    r"not (?:be )?(?:hidden|masked|padded|padding|ignored))\b", re.IGNORECASE)
_VALUE = re.compile(r"\b(?P<true>true|1|ones?)\b|\b(?P<false>false|0|zeros?)\b", re.IGNORECASE)
_REACH = 70
"""Characters behind a value in which it has to be said what it means."""
_NAMES_KEEP = re.compile(r"^(?:keep|visible|allowed|can_attend|may_attend)(?:_|$)")
_NAMES_HIDE = re.compile(r"^(?:hide|hidden|is_pad|is_padding|ignore|exclude)(?:_|$)")
_KEPT, _HIDDEN = "True where a query may attend", "True where a key is hidden"
_AS_NUMBERS = "1 where a query may attend, else 0"
"""How a reading of a mask begins that says which of its values hides a key."""


def with_polarity(form: CallForm, callee: Examined) -> CallForm:
    """The form; with its mask handed on as its name or documentation says, and a warning, where it does the
    opposite.
    """
    passed = next((each for each in form.passed if each.keyword == "mask" and _keeps(each) is not None), None)
    if passed is None:
        return form
    says = list(_evidence(passed.parameter, callee, _is_only_mask(passed, callee)))
    if not says or len({keeps for keeps, _ in says}) > 1 or says[0][0] is _keeps(passed):
        return form
    wanted = _KEPT if says[0][0] else _HIDDEN
    warning = (f"MASK INVERTED: {says[0][1]}, so that {passed.parameter} is {wanted}; it does the opposite. The mask "
               f"is handed on as that says: attnspec check says what is wrong. If it is meant as it is, exchange the "
               "mask in the adapter.")
    turned = replace(passed, expression=_turned(passed.expression), says=passed.says.replace(
        passed.says.partition(",")[0], wanted, 1))
    return replace(form, passed=tuple(turned if each is passed else each for each in form.passed),
                   warnings=(warning, *form.warnings))


def _keeps(passed: Passed) -> bool | None:
    """Whether True, or 1, keeps a key, as it was found; None for a mask that is added."""
    if passed.says.startswith((_KEPT, _AS_NUMBERS)):
        return True
    return False if passed.says.startswith(_HIDDEN) else None


def _turned(expression: str) -> str:
    """The Python of a mask the other way round."""
    if expression.startswith("~"):
        return expression[1:]
    inner, dot, rest = re.fullmatch(r"(.*?)((?:\.to\(|\.astype\()?)(.*)", expression, re.DOTALL).groups()  # type: ignore[union-attr]  # it matches all
    begin, cast = (expression, "") if not dot else (inner, dot + rest)
    return f"(~{begin}){cast}" if cast else f"~{begin}"


def _is_only_mask(passed: Passed, callee: Examined) -> bool:
    """Whether no other parameter of the call is called a mask, so that the word alone means this one."""
    listed = callee.call if callee.is_class else callee.parameters
    return not any("mask" in plain(each.name) for each in listed if each.name != passed.parameter)


def _evidence(parameter: str, callee: Examined, is_only: bool) -> Iterator[tuple[bool, str]]:
    """Whether True keeps a key, and where that is said."""
    name = plain(parameter)
    for pattern, keeps in ((_NAMES_KEEP, True), (_NAMES_HIDE, False)):
        if pattern.search(name):
            yield keeps, f"its name is {parameter}"
    about = re.compile(rf"\b{re.escape(parameter)}\b" + (r"|\bmask\b" if is_only else ""), re.IGNORECASE)
    for sentence in _sentences(callee):
        if about.search(sentence):
            meant = {keeps for keeps in _meanings(sentence) if keeps is not None}
            if len(meant) == 1:
                yield meant.pop(), f"what is written of it says {sentence!r}"


def _sentences(callee: Examined) -> Iterator[str]:
    """Of docstrings, sentence by sentence; of the code, each line with a comment."""
    for doc in callee.docs:
        parts = re.split(r"[.;]\s|[.;]$|\n\s*\n|\n(?=\s*\w+\s*[:(])", doc)
        yield from (" ".join(each.split()) for each in parts if each.strip())
    for line in callee.source.splitlines():
        code, mark, comment = line.partition("#")
        if mark and comment.strip():
            yield f"{code.strip()}  # {comment.strip()}" if code.strip() else comment.strip()


def _meanings(sentence: str) -> Iterator[bool | None]:
    """Of each value that a sentence says the meaning of, whether it says that True keeps a key."""
    told = sentence.rpartition("  # ")[2]  # what the code does is no word about it
    found = list(_VALUE.finditer(told))
    for at, value in enumerate(found):
        tail = told[value.end():found[at + 1].start() if found[at + 1:] else None][:_REACH]
        hides, keeps = _HIDES.search(tail), _KEEPS.search(tail)
        if not hides and not keeps:
            continue
        is_kept = not hides or (keeps is not None and keeps.start() < hides.start() and keeps.group().startswith("not"))
        yield is_kept is bool(value["true"])
