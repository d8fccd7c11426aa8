"""The functions of docs/serving.md are judged as they stand there, and its table is the contract."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from attnspec.aspects.decoder.keyword import STEP_PATTERNS
from attnspec.aspects.lengths.keyword import LENGTH_PATTERNS
from attnspec.aspects.pages.keyword import PAGE_PATTERNS
from attnspec.aspects.past.keyword import PAST_PATTERNS
from attnspec.aspects.segments.keyword import SEGMENT_PATTERNS
from attnspec.aspects.sinks.keyword import SINK_PATTERNS
from attnspec.aspects.slopes.keyword import SLOPE_PATTERNS
from attnspec.core.forms import POSITION_PATTERNS, ROTARY, WIDTH_PATTERNS
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.engine.engine import Engine
from attnspec.faults.subject import fault_subject
from attnspec.problems.problem import Recipe
from attnspec.spec.load import load_spec
from attnspec.trials.compile import compile_spec
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.trial import Trial, describe_case
from helpers.places import CHECKOUT

GUIDE, DROPPING = ((CHECKOUT / "docs" / name).read_text(encoding="utf-8") for name in ("serving.md", "dropout.md"))
EXAMPLES = re.findall(r"<!-- example: (\S+\.py), judged by (\S+) -->\n```python\n(.*?)```", GUIDE + DROPPING, re.DOTALL)


def verdicts(path: Path, clauses: str, dtypes: tuple[DType, ...] = (DType.FLOAT32,)) -> dict[str, Verdict]:
    """Of the clauses that apply, by clause and dtype, at effort quick."""
    name = "rotate" if path.name == "rotary.py" else "attend"
    engine = Engine(Plan((f"{path}:{name}",), clauses=(clauses, "attention.definition"), dtypes=dtypes,
                         effort=Effort.QUICK))
    found = {f"{item.clause} {item.dtype}": engine.try_item(item).verdict for item in engine.items()}
    return {name: verdict for name, verdict in found.items() if verdict is not Verdict.INAPPLICABLE}


@pytest.mark.family(1)
@pytest.mark.parametrize(("name", "clauses", "source"), EXAMPLES, ids=[name for name, *_ in EXAMPLES])
def test_a_worked_example_conforms(name: str, clauses: str, source: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(source, encoding="utf-8")
    found = verdicts(path, clauses, tuple(DType))
    assert len(found) > 10
    assert {item: verdict for item, verdict in found.items() if verdict is not Verdict.HELD} == {}


@pytest.mark.nightly
def test_an_example_that_forgets_the_lengths_does_not_conform(tmp_path: Path) -> None:
    [source] = [source for name, _, source in EXAMPLES if name == "lengths.py"]
    path = tmp_path / "forgetful.py"
    path.write_text(source.replace("own[:, None, None], logits, -np.inf", "True, logits, -np.inf"), encoding="utf-8")
    assert Verdict.VIOLATED in verdicts(path, "lengths.definition").values()


@pytest.mark.nightly
def test_an_example_that_draws_anew_backwards_does_not_conform(tmp_path: Path) -> None:
    [source] = [source for name, _, source in EXAMPLES if name == "dropout.py"]
    path = tmp_path / "anew.py"
    whole, backward = source.split("def attend_backward")
    anew = backward.replace("dropout_rate, seed)", "dropout_rate, seed + 1)", 1)
    path.write_text(f"{whole}def attend_backward{anew}", encoding="utf-8")
    assert Verdict.VIOLATED in verdicts(path, "dropout.gradient_of_value").values()


def test_the_table_of_a_rotary_embedding_has_its_keywords() -> None:
    for word in ROTARY.values():
        assert f"| `{word.name}` | {word.shape} | " in GUIDE


def test_the_table_has_every_keyword_of_serving() -> None:
    for word in (word for word in KEYWORDS.values() if word.pool in {"serving", "caches", "segments"}):
        assert f"| `{word.name}` | {word.shape} | " in GUIDE
        assert word.name in KEYWORDS


@pytest.mark.parametrize(("keywords", "patterns"), [
    ("`key_lengths`, `query_lengths`", LENGTH_PATTERNS), ("`past_key`", PAST_PATTERNS), ("`sinks`", SINK_PATTERNS),
    ("`alibi_slopes`", SLOPE_PATTERNS), ("`query_segments`", SEGMENT_PATTERNS),
    ("`block_table`", PAGE_PATTERNS), ("`cache`", STEP_PATTERNS), ("`positions`", POSITION_PATTERNS),
    ("`rotary_width`", WIDTH_PATTERNS)])
def test_the_guide_explains_every_pattern_that_a_case_names(keywords: str, patterns: Mapping[str, str]) -> None:
    told = re.findall(rf"^\| {keywords} \| `(\w+)` \| (.*) \|$", GUIDE, re.MULTILINE)
    assert dict(told) == dict(patterns)


def test_the_guide_shows_a_case_as_it_is_printed() -> None:
    [shown] = re.findall(r"^    case: (.*), …$", GUIDE, re.MULTILINE)
    case = Recipe.parse("B2,H2,Hkv2,T3,S7,D4,Dv4;mask=none;families=normal;with=key_lengths+past_key+past_value;"
                        "key_lengths=first_full;past_key=half;seed=6")
    subject = fault_subject("past_not_in_lengths")
    check = compile_spec(load_spec())["past.lengths_count_it"]
    trial = Trial(check, Evaluator(subject, DType.FLOAT32), Effort.QUICK, 0, lambda _: None)
    assert describe_case(trial, case).startswith(f"{shown}, entries")


@pytest.mark.nightly
def test_a_decoder_that_counts_new_keys_alone_does_not_conform(tmp_path: Path) -> None:
    [source] = [source for name, _, source in EXAMPLES if name == "decoding.py"]
    path = tmp_path / "uncounted.py"
    path.write_text(source.replace("places < key_lengths", "places < past + key_lengths"), encoding="utf-8")
    assert Verdict.VIOLATED in verdicts(path, "past.lengths_count_it").values()


@pytest.mark.nightly
def test_a_decoder_that_hands_back_new_keys_alone_does_not_conform(tmp_path: Path) -> None:
    [source] = [source for name, _, source in EXAMPLES if name == "decoder.py"]
    path = tmp_path / "forgetful_decoder.py"
    path.write_text(source.replace("@ value, (key, value)", "@ value, (key[:, :, past:], value[:, :, past:])"),
                    encoding="utf-8")
    assert Verdict.VIOLATED in verdicts(path, "decoder.any_chunks").values()
