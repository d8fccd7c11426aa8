"""Adds doubts to a form that is right: later keys, an inverted mask, an overflowing softmax.

Each doubt is a warning, and a check judges it where it can.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from attnspec.core.forms import CACHE
from attnspec.core.keywords import PLACED
from attnspec.core.nouns import DType
from attnspec.problems.problem import LayerProblem
from attnspec.scaffold.examined import ExaminedCallable
from attnspec.scaffold.form import Binding, CallForm
from attnspec.scaffold.lookup import TheirParameter, normalise_name, split_words
from attnspec.scaffold.probe_problems import expect_usual, plain_problem
from attnspec.scaffold.trial_adapter import Trier

_LARGE_FACTOR = 256.0
"""What takes logits that are near 1 to where exponentials leave float32."""


def warn_of_overflow(form: CallForm, trier: Trier) -> CallForm:
    """Adds a warning if large queries make the output infinite or NaN against the definition."""
    if form.dtype is DType.FLOAT16:
        return form
    problem = plain_problem(form)
    query = problem.query * problem.query.dtype.type(_LARGE_FACTOR)
    is_one = isinstance(problem, LayerProblem) and form.attends_to_itself  # one input serves for all three
    large = problem.but(query=query, **(dict.fromkeys(("key", "value"), query) if is_one else {}))
    answer = trier.answer(form, large)
    if answer is None or np.isfinite(answer.output).all() or not np.isfinite(expect_usual(form, large).output).all():
        return form
    warning = ("OVERFLOWS: where logits are large, its output is not finite. The softmax seems to "
               "subtract no maximum, or not that of the keys that are seen: attnspec check says "
               "what is wrong.")
    return replace(form, warnings=(*form.warnings, warning))


_CAUSAL_WORD = re.compile(r"causal|auto_?regressive")
_CAUSAL_NAME = re.compile(r"(?<![a-z])(causal|autoregressive|decoder|gpt)(?![a-z])")
_CROSS_NAME = re.compile(r"cross|encoder decoder|memory")
"""Matches the name of a decoder's attention to something else, which is not causal."""
_DENIAL = re.compile(r"\b(non|not|un|a|bi|anti)[- ]?causal|bidirectional|"
                     r"\b(if|when|whether|unless|optional|optionally|or)\b", re.IGNORECASE)
"""Matches a sentence that does not say that it is causal."""
_BUFFER_CALL = re.compile(r"register_buffer\(\s*[\"'](\w+)[\"']")
_TRIANGLE_CALL = re.compile(r"\b(tril|triu|tri|generate_square_subsequent_mask)\(")


def doubt_causality(form: CallForm, callee: ExaminedCallable,
                    parameters: Iterable[TheirParameter]) -> CallForm:
    """Warns, and demands the causal flag, where evidence says causal and answers are not."""
    has_flag = any(_CAUSAL_WORD.search(normalise_name(each.name)) for each in parameters)
    if "causal" in form.keywords or has_flag or form.takes_one_query or form.limits.get("one_memory"):
        return form
    evidence = next(_list_causal_evidence(form, callee), "")
    if not evidence:
        return form
    warning = f"NOT CAUSAL: {evidence}, but a query attends to later keys too. Is that meant?"
    return replace(form, warnings=(warning, *form.warnings),
                   demanded_keywords=(*form.demanded_keywords, "causal"))


def _list_causal_evidence(form: CallForm, callee: ExaminedCallable) -> Iterator[str]:
    """Lists what says that it is causal, unless its caller may pass a mask for that."""
    name = split_words(callee.name)
    is_left = "bias" in form.keywords or ("mask" in form.keywords and form.limits.get("mask_axes") != "BS")
    said = None if _DENIAL.search(name) or _CROSS_NAME.search(name) else _CAUSAL_NAME.search(name)
    if said and (said[1] in ("causal", "autoregressive") or not is_left):
        yield f"its name says {said[1]!r}"
    if is_left:
        return
    if triangle := _find_triangle(form, callee.source):
        yield triangle
    if form.parameter_for(CACHE):
        yield "it is a decoder, whose call may bring several keys"
    for doc in callee.docs:
        if sentence := _find_causal_sentence(doc):
            yield f"its docstring says {sentence!r}"


def _find_triangle(form: CallForm, source: str) -> str:
    """Describes the triangle that its code makes for all calls; empty if there is none."""
    made, registered = _TRIANGLE_CALL.search(source), _BUFFER_CALL.search(source)
    if made and registered:
        return f"it registers a triangle, {registered[1]!r}"
    is_for_all = not form.defaults.keys() - {"training"} and PLACED.keys().isdisjoint(form.keywords)
    return f"its code makes a triangle, by {made[1]!r}" if made and is_for_all else ""


def _find_causal_sentence(doc: str) -> str:
    sentences = (" ".join(each.split()) for each in re.split(r"[.;:]\s|[.;:]$|\n\s*\n", doc))
    return next((each for each in sentences if _CAUSAL_WORD.search(each.lower()) and not _DENIAL.search(each)), "")


_HIDING_WORDS = re.compile(
    r"\b(?:hid(?:e|es|den)|pad(?:s|ded|ding)?|ignored?|exclud\w*|drop\w*|masked|"
    r"(?:not|never|no|cannot|can't|isn't|without) (?:be )?(?:\w+ "
    r")?(?:attend|attention|look|see|visible|allow|kept|keep|"
    r"valid|used|take part|real)\w*|where not\b|disallow\w*|forbid\w*|invisible|future)",
    re.IGNORECASE)
_KEEPING_WORDS = re.compile(
    r"\b(?:keep\w*|kept|attend\w*|attention|look\w*|see|seen|visible|valid|allow\w*|real|used|take part|"
    r"not (?:be )?(?:hidden|masked|padded|padding|ignored))\b", re.IGNORECASE)
_VALUE_WORD = re.compile(r"\b(?P<true>true|1|ones?)\b|\b(?P<false>false|0|zeros?)\b",
                         re.IGNORECASE)
_LONGEST_REACH = 70
"""How many characters after a value its meaning may stand."""
_KEEPING_NAME = re.compile(r"^(?:keep|visible|allowed|can_attend|may_attend)(?:_|$)")
_HIDING_NAME = re.compile(r"^(?:hide|hidden|is_pad|is_padding|ignore|exclude)(?:_|$)")
_KEPT_MEANING, _HIDDEN_MEANING = "True where a query may attend", "True where a key is hidden"
_NUMBER_MEANING = "1 where a query may attend, else 0"
"""The beginnings of a mask's meaning that say which value hides a key."""


def warn_of_inverted_mask(form: CallForm, callee: ExaminedCallable) -> CallForm:
    """Passes a mask as its name or text says, with a warning, where the opposite is done."""
    passed = next((each for each in form.bindings if each.keyword == "mask" and _find_polarity(each) is not None), None)
    if passed is None:
        return form
    others = [each.name for each in (callee.call_parameters if callee.is_class else callee.parameters)
              if each.name != passed.parameter]
    is_only = not any("mask" in normalise_name(name) for name in others)  # then the word alone means this one
    says = list(_list_polarity_evidence(passed.parameter, callee, is_only))
    if not says or len({keeps for keeps, _ in says}) > 1 or says[0][0] is _find_polarity(passed):
        return form
    wanted = _KEPT_MEANING if says[0][0] else _HIDDEN_MEANING
    warning = (f"MASK INVERTED: {says[0][1]}, so that {passed.parameter} is {wanted}; it does the "
               "opposite. The mask is handed on as that says: attnspec check says what is wrong. "
               "If it is meant as it is, exchange the mask in the adapter.")
    turned = replace(passed, expression=_invert_mask(passed.expression), says=passed.says.replace(
        passed.says.partition(",")[0], wanted, 1))
    return replace(form,
                   bindings=tuple(turned if each is passed else each for each in form.bindings),
                   warnings=(warning, *form.warnings))


def _find_polarity(passed: Binding) -> bool | None:
    """Says whether True, or 1, keeps a key; None for a mask that is added."""
    if passed.says.startswith((_KEPT_MEANING, _NUMBER_MEANING)):
        return True
    return False if passed.says.startswith(_HIDDEN_MEANING) else None


def _invert_mask(expression: str) -> str:
    if expression.startswith("~"):
        return expression[1:]
    inner, dot, rest = re.fullmatch(r"(.*?)((?:\.to\(|\.astype\()?)(.*)", expression,
                                    re.DOTALL).groups()  # type: ignore[union-attr]  # it matches all
    begin, cast = (expression, "") if not dot else (inner, dot + rest)
    return f"(~{begin}){cast}" if cast else f"~{begin}"


def _list_polarity_evidence(parameter: str, callee: ExaminedCallable,
                            is_only: bool) -> Iterator[tuple[bool, str]]:
    """Lists whether True keeps a key, with where that is said."""
    name = normalise_name(parameter)
    for pattern, keeps in ((_KEEPING_NAME, True), (_HIDING_NAME, False)):
        if pattern.search(name):
            yield keeps, f"its name is {parameter}"
    about = re.compile(rf"\b{re.escape(parameter)}\b" + (r"|\bmask\b" if is_only else ""),
                       re.IGNORECASE)
    for sentence in _list_sentences(callee):
        if about.search(sentence):
            meant = {keeps for keeps in _read_values(sentence) if keeps is not None}
            if len(meant) == 1:
                yield meant.pop(), f"what is written of it says {sentence!r}"


def _list_sentences(callee: ExaminedCallable) -> Iterator[str]:
    """Lists the sentences of docstrings, and each line of code with a comment."""
    for doc in callee.docs:
        parts = re.split(r"[.;]\s|[.;]$|\n\s*\n|\n(?=\s*\w+\s*[:(])", doc)
        for each in parts:
            if each.strip():
                yield " ".join(each.split())
    for line in callee.source.splitlines():
        code, mark, comment = line.partition("#")
        if mark and comment.strip():
            yield f"{code.strip()}  # {comment.strip()}" if code.strip() else comment.strip()


def _read_values(sentence: str) -> Iterator[bool | None]:
    """Lists, for each value whose meaning a sentence says, whether True keeps a key."""
    told = sentence.rpartition("  # ")[2]  # what the code does is no word about it
    found = list(_VALUE_WORD.finditer(told))
    for at, value in enumerate(found):
        tail = told[value.end():found[at + 1].start() if found[at + 1:] else None][:_LONGEST_REACH]
        hides, keeps = _HIDING_WORDS.search(tail), _KEEPING_WORDS.search(tail)
        if not hides and not keeps:
            continue
        is_kept = not hides or (keeps is not None and keeps.start() < hides.start() and keeps.group().startswith("not"))
        yield is_kept is bool(value["true"])
