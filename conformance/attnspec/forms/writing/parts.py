"""Parts that every function of an adapter has: typed parameters, the lengths of axes, and what a call is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attnspec.forms.form import At, Form, Passed
from attnspec.forms.meaning import NAMES
from attnspec.forms.vocabulary import VOCABULARIES, Vocabulary
from attnspec.forms.writing.lines import broken, names_in
from attnspec.ground.keywords import KEYWORDS, OFF

ARRAYS = ("query", "key", "value")
_TYPES: Mapping[str, str] = {
    **dict.fromkeys(ARRAYS, "{0}"),
    **{name: KEYWORDS[name].annotation for name in sorted(KEYWORDS, key=lambda name: name in OFF)}}
"""Of what an adapter is handed, in the order in which it is."""
_DEFAULTS: Mapping[str, str] = {name: f" = {off}" for name, off in OFF.items()}


def words_of(form: Form) -> Vocabulary:
    """The framework's."""
    return VOCABULARIES[form.lift]


def typed(form: Form, name: str) -> str:
    """`mask: Tensor | None`."""
    return f"{name}: {_TYPES[name].format(words_of(form).array)}"


def optional(form: Form, name: str) -> str:
    """`mask: Tensor | None = None`."""
    return typed(form, name) + _DEFAULTS.get(name, "")


def helper(form: Form, name: str, returns: str, doc: str, body: Sequence[str]) -> list[str]:
    """A function that takes what its lines speak of."""
    lines = with_axes(form, body)
    used = names_in(*lines)
    parameters = [typed(form, each) for each in _TYPES if each in used]
    return [*broken(f"def {name}(", parameters, f") -> {returns}:", 0), f'    """{doc}"""', *lines]


def called_helper(lines: Sequence[str]) -> str:
    """The call of a helper, by the names of its own parameters."""
    head = "".join(line.strip() + " " for line in lines[:next(at for at, line in enumerate(lines) if "->" in line) + 1])
    name, _, rest = head.removeprefix("def ").partition("(")
    return f"{name}({', '.join(each for each in _TYPES if f'{each}: ' in rest)})"


def with_axes(form: Form, body: Sequence[str]) -> list[str]:
    """The lines, and before them the lengths of axes that they speak of."""
    axes, needed = NAMES[form.kind], names_in(*body) & NAMES[form.kind].keys()
    while more := (names_in(*(axes[each] for each in needed)) & axes.keys()) - needed:
        needed |= more
    return [*_unpacked(axes, needed), *body]


def _unpacked(axes: Mapping[str, str], needed: frozenset[str]) -> Iterator[str]:
    """`H = query.shape[1]`; `B, H, _, _ = query.shape` where several lengths of one array are needed."""
    for array in dict.fromkeys(text.partition(".shape")[0] for text in axes.values()):
        own = [name for name, text in axes.items() if text.startswith(f"{array}.shape[") and text.endswith("]")]
        if len(needed & set(own)) > 1:
            count = 4 if "H" in axes else 3
            places = {axes[name][-2]: name for name in own if name in needed}
            yield f"    {', '.join(places.get(str(at), '_') for at in range(count))} = {array}.shape"
        else:
            yield from (f"    {name} = {text}" for name, text in axes.items()
                        if name in needed and text.startswith(f"{array}.shape"))


def handed(form: Form) -> list[str]:
    """The arrays as a call is given them, by name or by position."""
    words = words_of(form)
    lying = {name[0]: form.arrangement.into.format(name) for name in ARRAYS}
    texts = [template.format(**lying, stack=words.stack, concatenate=words.concatenate)
             for template in form.arrangement.arguments]
    return [f"{name}={text}" for name, text in zip(form.names, texts, strict=True)] if form.names else texts


def arguments(form: Form, at: At = At.CALL) -> Mapping[str, str]:
    """What is given by name: parameters that always are, and keywords of ours, each with its expression."""
    given = dict(form.given if at is At.CALL else form.construction)
    for parameter in dict.fromkeys(each.parameter for each in form.passed if each.at is at):
        passed = passed_to(form, parameter)
        given[parameter] = (_total(passed[0], plain_of(form, parameter, at)) if len(passed) == 1
                            else f"_{parameter}({', '.join(each.keyword for each in passed)})")
    return given


def passed_to(form: Form, parameter: str) -> tuple[Passed, ...]:
    """The keywords of ours that go to a parameter of theirs."""
    return tuple(each for each in form.passed if each.parameter == parameter)


def plain_of(form: Form, parameter: str, at: At = At.CALL) -> str:
    """What a parameter is given where no keyword of ours is in use: its default, unless something else always is."""
    given = form.given if at is At.CALL else form.construction
    return given.get(parameter) or form.left.get(parameter) or "None"


def _total(passed: Passed, plain: str) -> str:
    """The expression of a keyword, also where it is not in use."""
    keyword, text = passed.keyword, passed.expression
    if keyword in ("causal", "return_weights"):
        return keyword if (text, plain) == ("True", "False") else f"{text} if {keyword} else {plain}"
    return keyword if (text, plain) == (keyword, "None") else f"{plain} if {keyword} is None else {text}"


def joined_lines(form: Form, parameter: str) -> list[str]:
    """The helper for a parameter that serves several keywords of ours: a mask, a bias, the word `causal`."""
    passed = {each.keyword: each for each in passed_to(form, parameter)}
    plain, array = plain_of(form, parameter), words_of(form).array
    body = []
    if "causal" in passed:
        arrays = " or ".join(f"{name} is not None" for name in passed if name != "causal")
        body += ["    if causal:", f"        if {arrays}:",
                 f'            raise ValueError("{parameter} is either a word or an array")',
                 f"        return {passed['causal'].expression}"]
    if {"mask", "bias"} <= passed.keys():
        both = passed["bias"].expression.replace("bias", words_of(form).hidden, 1)
        body += ["    if mask is not None and bias is not None:", f"        return {both}",
                 "    if mask is not None:", f"        return {passed['mask'].expression}"]
    last = passed["bias"] if "bias" in passed else passed["mask"]
    returns = f"{array} | str | None" if "causal" in passed else f"{array} | None"
    return helper(form, f"_{parameter}", returns, f"What `{parameter}` is given: it serves for all of these.",
                  [*body, f"    return {_total(last, plain)}"])
