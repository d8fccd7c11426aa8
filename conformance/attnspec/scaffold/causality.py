"""A doubt about what is named or described as causal, and attends to later keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from attnspec.core.forms import STATE
from attnspec.core.keywords import PLACED
from attnspec.scaffold.examined import ExaminedCallable
from attnspec.scaffold.form import CallForm
from attnspec.scaffold.lookup import TheirParameter, normalise_name, split_words

_CAUSAL_WORD = re.compile(r"causal|auto_?regressive")
_CAUSAL_NAME = re.compile(r"(?<![a-z])(causal|autoregressive|decoder|gpt)(?![a-z])")
_CROSS_NAME = re.compile(r"cross|encoder decoder|memory")
"""What stands in the name of a decoder's attention to something else, which is not causal."""
_DENIAL = re.compile(r"\b(non|not|un|a|bi|anti)[- ]?causal|bidirectional|"
                     r"\b(if|when|whether|unless|optional|optionally|or)\b", re.IGNORECASE)
"""What stands in a sentence that does not say that it is causal."""
_BUFFER_CALL = re.compile(r"register_buffer\(\s*[\"'](\w+)[\"']")
_TRIANGLE_CALL = re.compile(r"\b(tril|triu|tri|generate_square_subsequent_mask)\(")


def doubt_causality(form: CallForm, callee: ExaminedCallable, parameters: Iterable[TheirParameter]) -> CallForm:
    """The form; with a warning, and the causal flag demanded, where something says that it is causal and it is not.

    A parameter for that is judged by itself.
    """
    has_flag = any(_CAUSAL_WORD.search(normalise_name(each.name)) for each in parameters)
    if "causal" in form.keywords or has_flag or form.takes_one_query or form.limits.get("one_memory"):
        return form
    evidence = next(_list_causal_evidence(form, callee), "")
    if not evidence:
        return form
    warning = f"NOT CAUSAL: {evidence}, but a query attends to later keys too. Is that meant?"
    return replace(form, warnings=(warning, *form.warnings), demanded_keywords=(*form.demanded_keywords, "causal"))


def _list_causal_evidence(form: CallForm, callee: ExaminedCallable) -> Iterator[str]:
    """What says that it is causal. A caller who can hand over a mask of queries and keys may be meant to do it."""
    name = split_words(callee.name)
    is_left = "bias" in form.keywords or ("mask" in form.keywords and form.limits.get("mask_axes") != "BS")
    said = None if _DENIAL.search(name) or _CROSS_NAME.search(name) else _CAUSAL_NAME.search(name)
    if said and (said[1] in ("causal", "autoregressive") or not is_left):
        yield f"its name says {said[1]!r}"
    if is_left:
        return
    if triangle := _find_triangle(form, callee.source):
        yield triangle
    if form.parameter_for(STATE):
        yield "it is a decoder, whose call may bring several keys"
    for doc in callee.docs:
        if sentence := _find_causal_sentence(doc):
            yield f"its docstring says {sentence!r}"


def _find_triangle(form: CallForm, source: str) -> str:
    """What its code says that makes a triangle: that a class registers it, or that nothing that is left at its default,
    and no keyword that hides keys by their place, can be what it is for.
    """
    made, registered = _TRIANGLE_CALL.search(source), _BUFFER_CALL.search(source)
    if made and registered:
        return f"it registers a triangle, {registered[1]!r}"
    is_for_all = not form.defaults.keys() - {"training"} and PLACED.keys().isdisjoint(form.keywords)
    return f"its code makes a triangle, by {made[1]!r}" if made and is_for_all else ""


def _find_causal_sentence(doc: str) -> str:
    """The first sentence of a docstring that says plainly that it is causal; empty if there is none."""
    sentences = (" ".join(each.split()) for each in re.split(r"[.;:]\s|[.;:]$|\n\s*\n", doc))
    return next((each for each in sentences if _CAUSAL_WORD.search(each.lower()) and not _DENIAL.search(each)), "")
