"""A word's arguments are what its function's keyword-only parameters say."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import pytest
from attnspec.core.errors import FileLocation, SpecError
from attnspec.spec.clause import Word
from attnspec.spec.yaml_lines import parse_yaml
from attnspec.trials.compile import BoundWord
from attnspec.vocabulary.signature import (
    Between,
    Bound,
    Drawn,
    RunName,
    check_word,
    json_schema_of,
    look_up,
    parameters_of,
)


class Within(enum.Enum):
    """An enumeration as a word may take it."""

    EXACT = "exact"
    ROUNDING = "rounding"

Name = Literal["query", "key", "value"]
ORIGINAL = RunName("original")


def blend(
    _problem: object,
    *,
    arrays: tuple[Name, ...] = ("key",),
    families: Literal["any"] | Sequence[Name] = "any",
    cut: Drawn | None = None,
    cuts: tuple[Drawn, ...] = (),
    runs: tuple[RunName, RunName] = (RunName("one"), RunName("two")),
    within: Within = Within.EXACT,
    by: int = 1,
    rate: Annotated[float, Between(0, 1)] | None = 0.5,
    sizes: Mapping[str, int] | None = None,
    quietly: bool = False,
    either: tuple[Name, Name] | tuple[int, ...] | int = 0,
    only: frozenset[Name] = frozenset(),
    label: str = "",
) -> None:
    """Blend every type that an argument may have."""


def needs_two(_problem: object, *, array: Name, run: RunName = ORIGINAL) -> None:
    """One argument must be given; the other names a run that should exist."""


def bound(text: str, function: object = blend) -> Bound:
    arguments = parse_yaml(text.encode(), "s.yaml")
    assert callable(function)
    word = Word("blend", arguments, FileLocation("s.yaml", 9))
    return check_word(word, function, "transform", drawn=("cut",), runs=("one", "two"))


@pytest.mark.parametrize(("text", "name", "value"), [
    ("arrays: [query, value]", "arrays", ("query", "value")),
    ("families: any", "families", "any"),
    ("families: [key]", "families", ("key",)),
    ("cut: cut", "cut", 7),
    ("cut: ~", "cut", None),
    ("cuts: [cut, cut]", "cuts", (7, 7)),
    ("runs: [two, one]", "runs", ("two", "one")),
    ("within: rounding", "within", Within.ROUNDING),
    ("by: -3", "by", -3),
    ("rate: 1", "rate", 1.0),
    ("rate: 1e-9", "rate", 1e-9),
    ("rate: ~", "rate", None),
    ("sizes: {B: 3}", "sizes", {"B": 3}),
    ("quietly: true", "quietly", True),
    ("either: [1, 2, 3]", "either", (1, 2, 3)),
    ("either: [key, query]", "either", ("key", "query")),
    ("only: [key, key]", "only", frozenset({"key"})),
    ("label: 'on'", "label", "on"),
    ("{}", "arrays", ("key",)),
])
def test_a_right_argument_arrives_as_its_type(text: str, name: str, value: object) -> None:
    arrived = BoundWord(lambda _, **given: given, bound(text))(None, {"cut": 7})[name]
    assert arrived == value
    assert type(arrived) is type(value)


@pytest.mark.parametrize(("text", "message"), [
    ("array: [key]", "'array' is not a known argument of the transform 'blend'. Did you mean 'arrays'?"),
    ("arrays: key", "'arrays' of the transform 'blend' should be a list, each entry one of query, key, value, "
                    "not text ('key'). Write [key]."),
    ("arrays: [key, vale]", "'vale' is not a known choice for 'arrays[1]' of the transform 'blend'. "
                            "Did you mean 'value'?"),
    ("families: all", "'all' is not a known choice for 'families' of the transform 'blend'. Known: any."),
    ("families: 3", "'families' of the transform 'blend' should be one of any or a list, each entry one of "
                    "query, key, value, not a whole number (3)."),
    ("cut: cutt", "'cutt' is not a known drawn value of the clause. Did you mean 'cut'?"),
    ("cut: 3", "'cut' of the transform 'blend' should be the name of a drawn value, not a whole number (3)."),
    ("runs: [one, too]", "'too' is not a known run of the clause. Did you mean 'two'?"),
    ("runs: [one]", "'runs' of the transform 'blend' should be a list of 2: the name of a run, then the name of a "
                    "run; found a list of 1."),
    ("runs: one", "'runs' of the transform 'blend' should be a list of 2: the name of a run, then the name of a run, "
                  "not text ('one')."),
    ("within: exactly", "'exactly' is not a known choice for 'within' of the transform 'blend'. Did you mean 'exact'?"),
    ("within: [exact]", "'within' of the transform 'blend' should be one of exact, rounding, not a list."),
    ("by: four", "'by' of the transform 'blend' should be a whole number, not text ('four')."),
    ("by: 2.5", "'by' of the transform 'blend' should be a whole number, not a number (2.5)."),
    ("by: true", "'by' of the transform 'blend' should be a whole number, not true."),
    ("by: ~", "'by' of the transform 'blend' should be a whole number, not nothing."),
    ("rate: 2", "'rate' of the transform 'blend' should lie between 0 and 1, not at 2.0."),
    ("rate: .nan", "'rate' of the transform 'blend' should be a finite number, not a number (nan)."),
    ("rate: half", "'rate' of the transform 'blend' should be a finite number, not text ('half')."),
    ("sizes: {B: x}", "'sizes.B' of the transform 'blend' should be a whole number, not text ('x')."),
    ("sizes: [3]", "'sizes' of the transform 'blend' should be a mapping, each value a whole number, not a list."),
    ("quietly: 1", "'quietly' of the transform 'blend' should be true or false, not a whole number (1)."),
    ("runs: {one: two}", "'runs' of the transform 'blend' should be a list of 2: the name of a run, then the name of a "
                         "run, not a mapping."),
    ("either: [key]", "'either[0]' of the transform 'blend' should be a whole number, not text ('key')."),
    ("either: key", "'either' of the transform 'blend' should be a list of 2: one of query, key, value, then one of "
                    "query, key, value or a list, each entry a whole number or a whole number, not text ('key')."),
    ("label: 3", "'label' of the transform 'blend' should be text, not a whole number (3)."),
])
def test_a_wrong_argument_is_named_with_what_was_expected(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        bound(text)
    assert str(caught.value) == f"s.yaml:1: {message}"


@pytest.mark.parametrize(("text", "message"), [
    ("{}", "s.yaml:9: the transform 'blend' needs 'array': one of query, key, value."),
    ("array: key", "s.yaml:1: 'original' is not a known run of the clause. Known: one, two."),
    ("array: key\nrun: three", "s.yaml:2: 'three' is not a known run of the clause. Known: one, two."),
])
def test_what_is_left_out_must_have_a_default_that_exists(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        bound(text, needs_two)
    assert str(caught.value) == message


def test_a_word_without_arguments_says_so() -> None:
    def plain(_problem: object) -> None: ...

    with pytest.raises(SpecError, match=r"s\.yaml:1: the transform 'blend' takes no arguments; 'by' is given\."):
        bound("by: 1", plain)


def test_a_word_that_does_not_exist_is_named_with_the_nearest() -> None:
    message = (r"s\.yaml:3: 'blnd' is not a known transform\. Did you mean 'blend'\? "
               r"`attnspec list words` names them all\.")
    with pytest.raises(SpecError, match=message):
        look_up("blnd", {"blend": blend}, "transform", FileLocation("s.yaml", 3))
    assert look_up("blend", {"blend": blend}, "transform", FileLocation("s.yaml", 3)) is blend


def test_a_type_that_no_yaml_can_spell_is_our_own_mistake() -> None:
    def odd(_problem: object, *, by: complex) -> None: ...

    with pytest.raises(TypeError, match="cannot be the type of a word's argument"):
        bound("by: 1", odd)


def test_the_machinery_s_own_parameters_are_no_arguments() -> None:
    assert "_problem" not in parameters_of(blend)


def test_the_schema_of_a_word_holds_its_docstring_types_and_defaults() -> None:
    schema = json_schema_of(blend)
    properties = schema["properties"]
    assert isinstance(properties, dict)
    assert schema["description"] == "Blend every type that an argument may have."
    assert properties["by"] == {"type": "integer", "default": 1}
    assert properties["within"] == {"enum": ["exact", "rounding"], "default": "exact"}
    assert properties["rate"] == {
        "anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "null"}], "default": 0.5}
    assert properties["arrays"] == {"type": "array", "items": {"enum": ["query", "key", "value"]}, "minItems": 1}
    assert properties["sizes"] == {
        "anyOf": [{"type": "object", "additionalProperties": {"type": "integer"}}, {"type": "null"}]}
    assert properties["runs"]["minItems"] == properties["runs"]["maxItems"] == 2
    assert json_schema_of(needs_two)["required"] == ["array"]
