"""An adapter's source, written from a form. What is tried is what is written: the search runs these very lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attnspec.forms.form import Form, Layout
from attnspec.ground.nouns import Kind

_DEFAULTS: Mapping[str, str] = {"causal": "False", "return_weights": "False"}
_INTO: Mapping[Layout, str] = {
    Layout.BHTD: "{0}",
    Layout.BTHD: "{0}.swapaxes(1, 2)",
    Layout.NTD: "{0}.reshape(-1, *{0}.shape[2:])",
    Layout.BTE: "{0}.swapaxes(1, 2).reshape({0}.shape[0], {0}.shape[2], -1)",
}
_BACK: Mapping[Layout, str] = {
    Layout.BHTD: "output",
    Layout.BTHD: "output.swapaxes(1, 2)",
    Layout.NTD: "output.reshape(*query.shape[:3], -1)",
    Layout.BTE: "output.reshape(query.shape[0], query.shape[2], query.shape[1], -1).swapaxes(1, 2)",
}
_HIDDEN: Mapping[str, str] = {
    "": 'np.where(mask, bias, np.array(-np.inf, bias.dtype))',
    "torch": 'bias.masked_fill(~mask, float("-inf"))',
    "jax": "jnp.where(mask, bias, -jnp.inf)",
}
_IMPORTS: Mapping[str, str] = {"": "import numpy as np", "torch": "import torch", "jax": "import jax.numpy as jnp"}
ADAPTER = "attend"


def source(form: Form) -> str:
    """The whole module. Its function is called `attend`."""
    return "\n".join([*_head(form), *_signature(form), *_body(form), *_construction(form)]) + "\n"


def _head(form: Form) -> Iterator[str]:
    yield f'"""`{form.module}.{form.name}` for attnspec. Written by `attnspec init`: read it, mend what is wrong."""'
    yield from ("", "from __future__ import annotations", "")
    needed = form.kind is Kind.LAYER or _shares_parameter(form)
    yield from ((_IMPORTS[form.lift], "") if needed else ())
    top = form.name.partition(".")[0]
    yield f"from {form.module} import {top}"
    yield from (("", 'PARTS = ("query", "key", "value")') if form.kind is Kind.LAYER else ())
    yield from ("", "")


def _signature(form: Form) -> Iterator[str]:
    words = ["params", "heads"] if form.kind is Kind.LAYER else []
    words += [f"{name}={_DEFAULTS.get(name, 'None')}" for name in form.keywords]
    yield f"def {ADAPTER}(query, key, value, *, {', '.join(words)}):" if words else f"def {ADAPTER}(query, key, value):"
    shapes = "query (B,T,M), key and value (B,S,M)" if form.kind is Kind.LAYER else "query (B,H,T,D), key, value"
    yield f'    """{shapes}, as `{form.name}` takes them."""'


def _body(form: Form) -> Iterator[str]:
    """Keywords that are not used are not handed over, so that the library's own defaults are on trial."""
    fixed = ", ".join(f'"{name}": {text}' for name, text in form.fixed.items())
    if form.passed or fixed:
        yield f"    more = {{{fixed}}}"
        yield from _handed_over(form)
    yield f"    answer = {_call(form)}"
    yield from _answer(form)


def _handed_over(form: Form) -> Iterator[str]:
    for each in form.passed:
        used = each.keyword if each.keyword in _DEFAULTS else f"{each.keyword} is not None"
        yield f"    if {used}:"
        yield f'        more["{each.parameter}"] = {each.expression}'
    if _shares_parameter(form):
        bias = next(each for each in form.passed if each.keyword == "bias")
        both = bias.expression.replace("bias", _HIDDEN[form.lift], 1)
        yield "    if mask is not None and bias is not None:  # there is one parameter for both"
        yield f'        more["{bias.parameter}"] = {both}'


def _shares_parameter(form: Form) -> bool:
    return bool(form.parameter("mask")) and form.parameter("mask") == form.parameter("bias")


def _call(form: Form) -> str:
    function = form.name if form.kind is Kind.ATTENTION else "_module(query, params, heads)"
    into = "{0}" if form.kind is Kind.LAYER else _INTO[form.layout]
    arrays = [into.format(name) for name in ("query", "key", "value")[:form.inputs]]
    given = [f"{name}={array}" for name, array in zip(form.names, arrays, strict=True)] if form.names else arrays
    return f"{function}({', '.join([*given, *(['**more'] if form.passed or form.fixed else [])])})"


def _answer(form: Form) -> Iterator[str]:
    back = "output" if form.kind is Kind.LAYER else _BACK[form.layout]
    weights = "return_weights" in form.keywords
    if weights or form.returns_pair:
        yield "    output = answer[0] if isinstance(answer, (tuple, list)) else answer"
    else:
        back = back.replace("output", "answer")
    yield f"    return ({back}, answer[1]) if return_weights else {back}" if weights else f"    return {back}"


def _construction(form: Form) -> Iterator[str]:
    if form.kind is not Kind.LAYER:
        return
    arguments = ", ".join(f"{name}={text}" for name, text in form.construction.items())
    yield from ("", "", "def _module(query, params, heads):",
                '    """The layer with these parameters, in evaluation mode."""',
                f"    module = {form.name}({arguments}).to(query.dtype).eval()",
                "    with torch.no_grad():")
    for name, text in form.state.items():
        yield f'        module.get_parameter("{name}").copy_('
        yield f"            {text})"
    yield "    return module"
