"""What a function may carry: one table in the guide, and an error that says the right way for all else."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from attnspec.core.conventions import CONVENTIONS, UNDEFINED
from attnspec.core.declaration import LIMITS, Declaration, Limits
from attnspec.core.errors import TargetError
from attnspec.core.keywords import KEYWORDS, OFF
from attnspec.core.nouns import DType, Kind
from attnspec.problems.problem import INPUTS
from attnspec.subjects.attributes import ATTRIBUTES, declaration_of
from attnspec.subjects.declared import DECLARED
from attnspec.subjects.registry import load_target, registered_subjects
from helpers.places import CHECKOUT

GUIDE = (CHECKOUT / "docs" / "writing-an-adapter.md").read_text(encoding="utf-8")
FLOAT16 = 'attend.precision = {"float16": {"grade": "G4", "reason": "every step is stored in float16"}}'


def carrying(**attributes: Any) -> Callable[..., object]:  # noqa: ANN401  (right values and wrong ones)
    """A function of one's own that carries these attributes."""
    def attend(query: object, key: object, value: object, *, mask: object = None, causal: bool = False) -> None: ...

    vars(attend).update(attributes)
    return attend


def carrying_codes(**attributes: Any) -> Callable[..., object]:  # noqa: ANN401  (right values and wrong ones)
    """A function of one's own that takes codes and carries these attributes."""
    def attend(query: object, key: object, value: object, *, query_scale: object = None, key_scale: object = None,
               value_scale: object = None) -> None: ...

    vars(attend).update(attributes)
    return attend


def declared(**attributes: Any) -> Declaration:  # noqa: ANN401  (right values and wrong ones)
    return declaration_of(carrying(**attributes), "attend")


def complaint(function: Callable[..., object]) -> str:
    """What is said of it, without the place."""
    with pytest.raises(TargetError) as caught:
        declaration_of(function, "attend")
    place, _, said = str(caught.value).partition(": ")
    assert re.fullmatch(r".*test_attributes\.py:\d+", place)
    return said


OF_CODES = {f"{word}_{array}" for word in ("stored", "packed") for array in INPUTS} | {
    f"{array}_scales" for array in INPUTS}
OF_DECODERS = ("cache",)  # a function of another form may keep something of its own there


@pytest.mark.parametrize("attribute", [each for each in ATTRIBUTES if each not in OF_DECODERS])
def test_every_attribute_may_be_written_as_its_example_says(attribute: str) -> None:
    value, array = ast.literal_eval(ATTRIBUTES[attribute]), attribute.partition("_")[2]
    beside = {f"stored_{array}": "int4"} if attribute.startswith("packed_") else {}
    carries = carrying_codes if attribute in OF_CODES else carrying
    said, unsaid = (declaration_of(carries(**each), "attend") for each in ({attribute: value, **beside}, beside))
    found, default = ((getattr(each.limits if attribute in LIMITS else each, attribute)) for each in (said, unsaid))
    assert found != default


def test_all_that_is_declared_is_an_attribute_or_told_what_to_do_instead() -> None:
    assert {*ATTRIBUTES, "kind", "limits"} == {*DECLARED, *LIMITS}


MISTAKES: Mapping[str, tuple[dict[str, object], str]] = {
    "limits": ({"limits": {"ties_value_width": True}},
               "attend has an attribute 'limits'; every limit is an attribute of its own. "
               "Write attend.ties_value_width = True. Limits: ties_value_width, grouped, …"),
    "limits, mistyped": ({"limit": {"tie_value_width": True, "min_windw": 2}},
                         "attend has an attribute 'limit'; every limit is an attribute of its own. "
                         "Write attend.ties_value_width = True; attend.min_window = 2. Limits: …"),
    "limits, no mapping": ({"limits": ["ties_value_width"]},
                           "attend has an attribute 'limits'; every limit is an attribute of its own. "
                           "Write attend.ties_value_width = True. Limits: …"),
    "kind": ({"kind": "layer"}, "attend has an attribute 'kind'; its parameters make it 'attention': a layer takes "
                                "params and heads. Leave attend.kind out."),
    "a convention": ({"hidden_row": "zeros"}, "attend has an attribute 'hidden_row'; a convention stands in a mapping. "
                                              "Write attend.conventions = {'hidden_row': 'zeros'}"),
    "dtype": ({"dtype": ["float32"]}, "attend has an attribute 'dtype'; did you mean 'dtypes'? As in attend.dtypes = "
                                      '["float32", "bfloat16"]. What can be declared: dtypes, output_dtype, …'),
    "precison": ({"precison": {}}, f"attend has an attribute 'precison'; did you mean 'precision'? As in {FLOAT16}. …"),
    "convention": ({"convention": {}}, "attend has an attribute 'convention'; did you mean 'conventions'? As in "
                                       'attend.conventions = {"hidden_row": "zeros"}. …'),
    "tied_value_width": ({"tied_value_width": True}, "attend has an attribute 'tied_value_width'; did you mean "
                                                     "'ties_value_width'? As in attend.ties_value_width = True. …"),
    "one dtype": ({"dtypes": "float32"}, "'dtypes' of the attributes of attend should be a list of texts, not text "
                                         "('float32'). Write it as in attend.dtypes = [\"float32\", \"bfloat16\"]"),
    "no dtype": ({"dtypes": []}, "'dtypes' of the attributes of attend is empty; leave it out if it takes them all. "
                                 "Write it as in attend.dtypes = [\"float32\", \"bfloat16\"]"),
    "a type": ({"dtypes": [float]}, "'dtypes[0]' of the attributes of attend should be text, not type "
                                    "(<class 'float'>). Write it as in attend.dtypes = [\"float32\", \"bfloat16\"]"),
    "a grade alone": ({"precision": "G4"}, "'precision' of the attributes of attend should be a mapping, not text "
                                           f"('G4'). Write it as in {FLOAT16}"),
    "a grade of a dtype": ({"precision": {"float16": "G4"}}, "'float16' of the precision should be a mapping, not text "
                                                             f"('G4'). Write it as in {FLOAT16}"),
    "no reason": ({"precision": {"float16": {"grade": "G4"}}}, "the precision of 'float16' needs 'reason'. It has: "
                                                               f"grade. Write it as in {FLOAT16}"),
    "conventions": ({"conventions": ["zeros"]}, "'conventions' of the attributes of attend should be a mapping, not a "
                                                'list. Write it as in attend.conventions = {"hidden_row": "zeros"}'),
    "a lift": ({"lift": "tensorflow"}, "'tensorflow' is not a known lift. Known: jax, torch. "
                                       'Write it as in attend.lift = "torch"'),
    "a flag": ({"ties_value_width": 1}, "'ties_value_width' of 'limits' should be true or false, not a whole number "
                                        "(1). Write it as in attend.ties_value_width = True"),
    "a number": ({"min_scores": "64"}, "'min_scores' of 'limits' should be a whole number, not text ('64'). "
                                       "Write it as in attend.min_scores = 64"),
    "axes": ({"mask_axes": "BT"}, "'BT' is not a known set of axes. Did you mean 'BTS'? "
                                  'Write it as in attend.mask_axes = "BTS"'),
}


@pytest.mark.parametrize(("attributes", "said"), MISTAKES.values(), ids=MISTAKES)
def test_what_is_declared_amiss_is_told_the_right_way(attributes: dict[str, object], said: str) -> None:
    found = complaint(carrying(**attributes))
    assert found.startswith(said[:-1]) if said.endswith("…") else found == said


def test_the_kind_that_the_parameters_say_may_be_repeated() -> None:
    assert declared(kind=Kind.ATTENTION).kind is Kind.ATTENTION
    assert declared(kind="attention").kind is Kind.ATTENTION


def test_attributes_of_somebody_elses_are_nobodys_business() -> None:
    assert declared(cache_info=len, kernel="flash", __wrapped__=carrying(), name=3) == declared()


def test_a_partial_may_carry_them_too() -> None:
    attend = functools.partial(carrying(), mask=None)
    vars(attend)["dtypes"] = ["float32"]
    assert declaration_of(attend, "attend").dtypes == (DType.FLOAT32,)
    vars(attend)["dtype"] = ["float32"]
    with pytest.raises(TargetError, match="did you mean 'dtypes'"):
        declaration_of(attend, "attend")


class Remembering:
    """An object that keeps its last weights under a name that declares something."""

    weights = None
    limits = (0, 1)

    def __call__(self, query: object, key: object, value: object) -> None: ...


def test_an_objects_own_attribute_is_told_to_be_wrapped() -> None:
    assert complaint(Remembering()) == (
        "'weights' of 'limits' should be text, not nothing. If attend uses this attribute itself, wrap attend in a "
        "function. "
        'Write it as in attend.weights = "averaged"')


# The guide

CODE = re.compile(r"`([^`]+)`")


def rows(head: str) -> dict[str, list[str]]:
    """The rows of the guide's table with this head, by the name in their first cell."""
    [table] = re.findall(rf"^\| {head} \|.*\n\|[-|]+\n((?:\|.*\n)+)", GUIDE, re.MULTILINE)
    cells = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
    names = [CODE.findall(row[0])[0] for row in cells]
    assert len(names) == len(set(names))
    return dict(zip(names, cells, strict=True))


def test_the_guides_table_holds_all_that_is_declared() -> None:
    assert rows("attribute").keys() == {*DECLARED, *LIMITS}


@pytest.mark.parametrize("name", sorted({*ATTRIBUTES}))
def test_the_guides_table_tells_the_default(name: str) -> None:
    default = getattr(Limits() if name in LIMITS else Declaration(), name)
    told = ast.literal_eval(CODE.findall(rows("attribute")[name][3])[0])
    assert told == ([each.value for each in default] if name == "dtypes" else
                    list(default) if name in {"claims", "refuses", "sizes"} else default)


@pytest.mark.parametrize("name", ["lift", "weights", "mask_axes", "output_dtype", *(
    limit for limit in LIMITS if isinstance(getattr(Limits(), limit), bool) or limit == "grouped")])
def test_the_guides_table_tells_values_that_are_accepted(name: str) -> None:
    for value in CODE.findall(rows("attribute")[name][2]):
        declared(**{name: ast.literal_eval(value)} if value != '""' else {})


def test_the_guides_conventions_are_all_that_there_are() -> None:
    told = {name: {UNDEFINED, *CODE.findall(row[2])} for name, row in rows("convention").items()}
    assert told == {name: set(convention.answers) for name, convention in CONVENTIONS.items()}


def test_the_guides_attributes_are_accepted() -> None:
    [block] = re.findall(r"```python\n(attend\.dtypes.*?)```", GUIDE, re.DOTALL)
    attend = carrying()
    exec(block, {"attend": attend})
    declaration = declaration_of(attend, "attend")
    assert declaration.precision[DType.FLOAT16]["grade"] == "G4"
    assert declaration.limits == Limits(ties_value_width=True)


def test_the_guides_manifest_registers_what_it_says(tmp_path: Path) -> None:
    [manifest] = re.findall(r"```yaml\n(library:.*?)```", GUIDE, re.DOTALL)
    library = tmp_path / "mine"
    library.mkdir()
    (library / "manifest.yaml").write_text(manifest, encoding="utf-8")
    (library / "adapter.py").write_text("def attend(query, key, value, *, mask=None, causal=False): ...\n")
    [name] = re.findall(r"this registers `([^`]+)`", GUIDE)
    assert [each.id for each in registered_subjects([tmp_path]).values() if each.library.folder == "mine"] == [name]
    assert load_target(name, folders=[tmp_path]).declaration.limits == Limits(ties_value_width=True)
    assert yaml.safe_load(manifest)["subjects"][0]["id"] == "attention"


def test_the_guide_has_every_keyword_as_it_is_defined() -> None:
    for word in KEYWORDS.values():
        left_out = f"`{OFF[word.name]!r}`" if word.name in OFF else "always given"
        assert f"| `{word.name}` | {word.shape} | {word.meaning} | {left_out} | `{word.profile}` |\n" in GUIDE
