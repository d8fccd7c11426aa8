"""A keyword is defined in one place: few files of the package name it, and a further one is told."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path

import attnspec
import pytest
from attnspec.core.keyword import KeywordLimits
from attnspec.core.keywords import ASPECTS, KEYWORDS, OFF, UNCOMMON, VALUED, KeywordArguments
from attnspec.faults.fault import Stage, all_mistakes
from attnspec.problems.domain import domain
from attnspec.problems.problem import Recipe

PACKAGE = Path(attnspec.__file__).parent
CHECKOUT = Path(__file__).parents[2]
MOST = 16
"""How many files, or folders of one kind of data, may name a keyword."""

LISTS = frozenset({"diagnosis/inputs.py", "diagnosis/whereabouts.py"})
"""A list of calls that tell faults apart, and one of numbers that a boundary may be on: they have some of every
keyword, and are no place to look for one.
"""

FOLDERS = ("faults/sizes/", *(f"aspects/{aspect}/" for aspect in ASPECTS))
"""Families of faults, and each aspect: the folder counted once."""

NAMED: Mapping[str, Mapping[str, str]] = {
    "softcap": {
        "aspects/softcap/": "the aspect itself",
        "core/keywords.py": "its field, and that there is such an aspect",
    },
    "window": {
        "aspects/window/": "the aspect itself",
        "core/keyword.py": "the type of its value, and its limits",
        "core/keywords.py": "its field, and that there is such an aspect",
        "core/conventions.py": "the question along which diagonal it lies",
    },
    "key_lengths": {
        "aspects/lengths/": "the aspect itself",
        "core/keywords.py": "its field",
        "numerics/operands.py": "from where places are counted",
        "questions/inputs.py": "a row that has no key",
        "questions/undeclared.py": "the convention of such a row",
        "subjects/baseline.py": "the same, in a baseline",
        "faults/mechanisms.py": "real mistakes with it",
        "kernels/flashinfer.py": "the arrays of a benchmark that it becomes",
        "aspects/sinks/": "the two together: what is lost, and calls of a diagnosis",
        "aspects/lse/": "the two together: what is lost, and calls of a diagnosis",
        "aspects/past/": "the two together: what is lost, and calls of a diagnosis",
        "aspects/decoder/": "the two together: what is lost, and calls of a diagnosis",
        "aspects/gradients/": "the two together: what is lost, and calls of a diagnosis",
    },
    "query_lengths": {
        "aspects/lengths/": "the aspect itself",
        "core/coverage.py": "a single query has no shorter length",
        "trials/covering_cases.py": "whether a length hides a query",
        "core/keywords.py": "its field",
        "core/conventions.py": "the question of what lies beyond",
        "numerics/operands.py": "which rows there are, and from where places are counted",
        "faults/mechanisms.py": "real mistakes with it",
        "numerics/gradients.py": "rows that contribute to no gradient",
    },
    "sinks": {
        "aspects/sinks/": "the aspect itself",
        "trials/covering_cases.py": "a sink acts beside a single key, too",
        "core/keywords.py": "its field",
        "problems/keyword_arrays.py": "how it is made",
        "scaffold/probe_problems.py": "the same, for the problems of `attnspec init`",
        "faults/mechanisms.py": "real mistakes with it",
        "numerics/gradients.py": "its gradient",
        "faults/backward.py": "its stage in the backward pass",
        "vocabulary/observables.py": "how its gradient is observed",
        "aspects/softcap/": "a change in public that lost both",
        "aspects/window/": "a call of a diagnosis with both",
        "aspects/lse/": "the two together: what is lost, and calls of a diagnosis",
        "aspects/decoder/": "the two together: what is lost, and calls of a diagnosis",
        "aspects/gradients/": "the two together: what is lost, and calls of a diagnosis",
        "aspects/quantised/": "the two together: what is lost, and calls of a diagnosis",
    },
    "return_lse": {
        "aspects/lse/": "the aspect itself",
        "engine/causes.py": "what is right beside it is told",
        "scaffold/learning.py": "what comes back beside the output, told from weights",
        "core/keywords.py": "its field",
        "core/conventions.py": "the questions of its base and of hidden rows",
        "subjects/subject.py": "the shape in which it comes back",
        "trials/compile.py": "what is needed to observe it",
        "vocabulary/observables.py": "how it is observed",
        "vocabulary/relations.py": "what parts are put together by",
        "faults/staged.py": "its stage, which faults replace",
        "faults/sound.py": "sound formulations of it",
        "faults/packed.py": "packed ones of it",
        "diagnosis/tolerance.py": "what of it is compared",
        "kernels/flashinfer.py": "an output of a benchmark's kernels",
        "aspects/quantised/": "the two together: what is lost, and calls of a diagnosis; the mean of smoothed keys",
    },
    "past_key": {
        "aspects/past/": "the aspect itself",
        "scaffold/mistakes.py": "the plain mistakes behind a past",
        "vocabulary/transforms/contents.py": "past content that is replaced",
        "core/coverage.py": "a long past is a feature",
        "core/keywords.py": "its field",
        "faults/staged.py": "its stage, which faults replace",
        "faults/sound.py": "sound formulations of it",
        "faults/staged_forms.py": "what a cache holds",
        "faults/sound_forms.py": "what a cache holds in sound formulations",
        "scaffold/decoders.py": "where in an answer a cache is found",
        "aspects/window/": "a window that does not count it",
        "aspects/decoder/": "a cache is called past_key_values elsewhere",
        "aspects/slopes/": "slopes beside a past",
        "aspects/lengths/": "the two together: what is lost, and calls of a diagnosis",
        "aspects/quantised/": "the two together: what is lost, and calls of a diagnosis",
    },
    "past_value": {
        "aspects/past/": "the aspect itself",
        "scaffold/mistakes.py": "the plain mistakes behind a past",
        "vocabulary/transforms/contents.py": "past content that is replaced",
        "core/keywords.py": "its field",
        "faults/staged.py": "its stage, which faults replace",
        "faults/staged_forms.py": "what a cache holds",
        "faults/sound_forms.py": "what a cache holds in sound formulations",
        "aspects/slopes/": "slopes beside a past",
        "aspects/lengths/": "the two together: what is lost, and calls of a diagnosis",
        "aspects/decoder/": "the two together: what is lost, and calls of a diagnosis",
        "aspects/window/": "a call of a diagnosis with both",
    },
    "alibi_slopes": {
        "aspects/slopes/": "the aspect itself",
        "scaffold/search.py": "the way out where a bias by position cannot be switched off",
        "core/keywords.py": "its field",
        "problems/keyword_arrays.py": "how it is made",
        "faults/packed.py": "of each sequence its own",
        "faults/sound_forms.py": "packed sequences with them",
    },
    "query_segments": {
        "aspects/segments/": "the aspect itself",
        "scaffold/learning.py": "one array that is the segments of queries and keys alike",
        "scaffold/trial_adapter.py": "the limit of functions that take one array for both",
        "scaffold/lookup.py": "the names that one array for both has in other libraries",
        "core/keywords.py": "its field",
        "problems/keyword_arrays.py": "the pattern that changes nothing",
    },
    "block_table": {
        "aspects/pages/": "the aspect itself",
        "core/keywords.py": "its field",
        "core/forms.py": "the form that it stands for",
        "subjects/subject.py": "the pages that a case asks for",
        "kernels/flashinfer.py": "the arrays of a benchmark that it becomes",
        "scaffold/meaning.py": "how many keys an adapter that `attnspec init` writes has room for",
    },
    "grad_output": {
        "aspects/gradients/": "the aspect itself",
        "aspects/quantised/": "the two together: backward passes that are wrong beside codes",
        "diagnosis/tolerance.py": "the gauge of a backward pass",
        "engine/summon.py": "a function is asked whether its framework differentiates it",
        "core/keywords.py": "its field",
        "host/lifts/plain.py": "how a framework is handed it",
        "subjects/call.py": "the parameter of a backward pass",
        "subjects/subject.py": "that gradients are asked for with it",
        "scaffold/manifest.py": "whether a function refuses what it accepts without gradients",
        "vocabulary/observables.py": "that a layer's parameters have gradients where its output has one",
        "faults/backward.py": "sound backward passes",
        "core/keyword.py": "its name",
    },
    "dropout_rate": {
        "aspects/dropout/": "the aspect itself",
        "core/keywords.py": "its field",
        "scaffold/lookup.py": "the names of what a layer of a library calls so",
        "scaffold/variants.py": "the variant of that name, which `attnspec init` writes",
        "core/keyword.py": "its name",
    },
}
"""The files that name a keyword, and what for. `mask` and `scale` are words of the field and cannot be counted so."""


@functools.cache
def spoken(source: str) -> frozenset[str]:
    """Every identifier, attribute, argument, module and text; docstrings are left out."""
    return frozenset(_spoken(source))


def _spoken(source: str) -> Iterator[str]:
    tree = ast.parse(source)
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        names = (getattr(node, field, None) for field in ("id", "attr", "arg", "name", "asname", "module"))
        yield from (name for name in names if isinstance(name, str))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield node.value


def naming(keyword: str, package: Path = PACKAGE) -> set[str]:
    """The files of the package that name a keyword, or have a word that holds its name."""
    sources = {path.relative_to(package).as_posix(): path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    named = (name for name, source in sources.items() if keyword in source.lower()
             and any(keyword in word.lower() for word in spoken(source)))
    return {next((folder for folder in FOLDERS if name.startswith(folder)), name) for name in named}


@pytest.mark.parametrize("keyword", NAMED)
def test_only_files_with_a_reason_name_a_keyword(keyword: str) -> None:
    assert naming(keyword) - LISTS == set(NAMED[keyword])


@pytest.mark.parametrize("keyword", NAMED)
def test_few_files_name_a_keyword(keyword: str) -> None:
    assert len(NAMED[keyword]) <= MOST


@pytest.mark.parametrize("line", [
    "cap = problem.softcap", "softcap = 2.0", "put(softcap=2.0)", "def put(softcap): ...", "DROPPED = ('softcap',)",
    "from attnspec.faults.softcap import FAULTS", "import attnspec.faults.softcap as shared", "OFF = {'SoftCap': 1}"])
def test_a_further_file_that_names_a_keyword_is_told(tmp_path: Path, line: str) -> None:
    (tmp_path / "further.py").write_text(f"{line}\n", encoding="utf-8")
    assert naming("softcap", tmp_path) == {"further.py"}


@pytest.mark.parametrize("line", ['"""Of a softcap."""', "def put():\n    '''With a softcap.'''", "x = 1  # a softcap"])
def test_prose_about_a_keyword_is_not_counted(tmp_path: Path, line: str) -> None:
    (tmp_path / "prose.py").write_text(f"{line}\n", encoding="utf-8")
    assert naming("softcap", tmp_path) == set()


CODES = re.compile(
    r"quantis|(query|key|value)_(global_)?scales?\b|(query|key|value)_zero|(stored|packed)_(query|key|value)\b|"
    r"zero point|granularit|nibble|mxfp|nvfp|float8|\bu?int4\b|\bcodes of|of codes|\bdtype codes\b", re.IGNORECASE)
"""Words of codes, scales, zero points and their formats."""

KNOWING_CODES: Mapping[str, str] = {
    "core/keyword.py": "the limits of functions that take them",
    "core/keywords.py": "the fields of scales and zero points, and that there is such an aspect",
    "numerics/precision.py": "the words of a class: `dequantised`, and what is stored",
    "faults/precision.py": "plain mistakes of who declares no codes: what is stored in eight bits",
    "host/frames.py": "the narrow types by which arrays travel",
    "host/lifts/torch.py": "which narrow types PyTorch has",
}
"""The files outside `aspects/quantised/` that know codes, and what for."""

OTHER_SCALES = frozenset({"faults/backward.py", "faults/heads.py", "aspects/gradients/faults.py", "faults/edges.py"})
"""These say the like of the scale of the logits: `key_scale` is that of a key's gradient; or tell a story."""


def test_few_files_outside_of_the_aspect_know_codes() -> None:
    sources = {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    knowing = {name for name, source in sources.items() if not name.startswith("aspects/quantised/")
               and any(CODES.search(word) for word in spoken(source))}
    assert knowing - OTHER_SCALES == set(KNOWING_CODES)
    assert len(KNOWING_CODES) <= 8


def test_every_optional_keyword_is_a_field_of_a_problem() -> None:
    assert list(OFF) == [word.name for word in KEYWORDS.values() if not word.required]
    assert list(OFF) == [each.name for each in fields(KeywordArguments)]


def test_a_limit_that_a_definition_names_exists() -> None:
    limits = {each.name for each in fields(KeywordLimits)}
    assert {word.needs_causal for word in KEYWORDS.values() if word.needs_causal} <= limits
    assert {name for word in KEYWORDS.values() for saying in word.sayings for name in saying.limits} <= limits


@pytest.mark.parametrize("keyword", UNCOMMON)
def test_an_uncommon_keyword_has_a_stage_of_faults(keyword: str) -> None:
    assert any(keyword in aspect.about for aspect in all_mistakes()) or Stage(keyword) == keyword


def test_a_list_of_no_keyword_is_an_error_in_python_too() -> None:
    with pytest.raises(TypeError, match=r"domain\(\) got an unexpected keyword argument 'windws'"):
        domain(windws=[(1, 1)])  # type: ignore[call-arg]  # that is the mistake


@pytest.mark.parametrize("keyword", VALUED)
def test_values_are_read_back_from_a_recipe(keyword: str) -> None:
    plain = Recipe.parse("B1,H1,Hkv1,T2,S2,D2,Dv2;mask=none;families=normal;seed=1")
    for value in VALUED[keyword].usual:
        recipe = Recipe(plain.sizes, plain.families, "none", frozenset({keyword}), 1, values={keyword: value})
        assert Recipe.parse(recipe.text) == recipe


def test_the_guide_names_the_files_that_know_softcap_at_most_five() -> None:
    guide = (CHECKOUT / "docs/adding-a-keyword.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `([^`]+\.py)` \|", guide, re.MULTILINE)
    files = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")
             if any("softcap" in word.lower() for word in spoken(path.read_text(encoding="utf-8")))}
    assert set(named) == files
    assert len(named) <= 5
