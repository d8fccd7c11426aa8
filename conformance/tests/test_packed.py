"""The packed form: how sequences are put one behind the other, how answers are spread out, and who is recognised."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from attnspec.core.errors import TargetError
from attnspec.core.forms import GIVEN_TO_PACKED, InputForm
from attnspec.core.nouns import DType, Effort, Verdict
from attnspec.core.plan import Plan
from attnspec.engine.engine import Engine
from attnspec.faults.packed import PACKED_FAULTS
from attnspec.problems.make import make_problem
from attnspec.problems.problem import Problem, Recipe
from attnspec.record.outcome import Outcome
from attnspec.subjects.registry import load_target
from attnspec.subjects.serving_forms import pack
from attnspec.vocabulary.scene import NoClaim, Posed
from attnspec.vocabulary.transforms.contents import replace_last_entry

ALL = frozenset(GIVEN_TO_PACKED)
HEAD = "def attend(query, key, value, *, {}):\n    return query\n"


LENGTHS, SIZES = "key_lengths=ragged;query_lengths=ragged", "B3,H4,Hkv2,T5,S7,D4,Dv6"


def problem(used: str = LENGTHS, *, sizes: str = SIZES) -> Problem:
    features = "+".join(sorted(each.partition("=")[0] for each in used.split(";") if each))
    given = f"with={features};{used};" if used else ""
    return make_problem(Recipe.parse(f"{sizes};mask=none;families=normal;{given}seed=3"), DType.FLOAT32)


# The arrays


def test_sequences_stand_one_behind_the_other_without_padding() -> None:
    made = problem().but(query_lengths=np.array([2, 5, 1], np.int32), key_lengths=np.array([7, 3, 4], np.int32))
    packed = pack(made, ALL)
    assert (packed.query.shape, packed.key.shape, packed.value.shape) == ((8, 4, 4), (14, 2, 4), (14, 2, 6))
    np.testing.assert_array_equal(packed.query[2:7], made.query[1].swapaxes(0, 1))
    np.testing.assert_array_equal(packed.value[10:14], made.value[2, :, :4].swapaxes(0, 1))


def test_borders_say_where_each_sequence_begins_and_the_last_one_ends() -> None:
    made = problem().but(query_lengths=np.array([2, 0, 1], np.int32), key_lengths=np.array([7, 3, 0], np.int32))
    given = pack(made, ALL).given_arguments
    assert (given["cu_query"], given["cu_key"]) == (pytest.approx([0, 2, 2, 3]), pytest.approx([0, 7, 10, 10]))
    assert (given["max_query"], given["max_key"]) == (2, 7)
    assert all(np.asarray(given[name]).dtype == np.int32 for name in ("cu_query", "cu_key"))


def test_without_lengths_every_sequence_is_as_long_as_the_array() -> None:
    given = pack(problem(""), frozenset({"cu_query", "cu_key"})).given_arguments
    assert list(given) == ["cu_query", "cu_key"]
    assert (given["cu_query"], given["cu_key"]) == (pytest.approx([0, 5, 10, 15]), pytest.approx([0, 7, 14, 21]))


def test_keywords_are_handed_on_and_lengths_are_not() -> None:
    made = problem("key_lengths=ragged;query_lengths=ragged;sinks=spread").but(causal=True)
    assert set(pack(made, frozenset()).given_arguments) == {"cu_query", "cu_key", "sinks", "causal"}


def test_rows_that_no_sequence_has_are_zeros_in_the_answer() -> None:
    made = problem().but(query_lengths=np.array([2, 0, 5], np.int32))
    packed = pack(made, ALL)
    spread = packed.spread(np.ones(packed.output_shape, np.float32))
    assert spread.shape == (3, 4, 5, 6)
    assert spread.any(axis=(1, 3)).tolist() == [[True] * 2 + [False] * 3, [False] * 5, [True] * 5]
    assert packed.spread(np.ones(packed.lse_shape)).shape == (3, 4, 5)


# Who is recognised


def written(tmp_path: Path, parameters: str) -> str:
    path = tmp_path / "mine.py"
    path.write_text(HEAD.format(parameters), encoding="utf-8")
    return f"{path}:attend"


def test_a_function_with_both_borders_is_packed(tmp_path: Path) -> None:
    declared = load_target(written(tmp_path, "cu_query, cu_key, max_key, causal=False, block=64")).declaration
    assert declared.form is InputForm.PACKED
    assert declared.given == {"cu_query", "cu_key", "max_key"}
    assert declared.keywords == {"causal", "key_lengths", "query_lengths"}
    assert declared.defaults == {"block": "64"}


@pytest.mark.parametrize(("parameters", "said"), [
    ("cu_query", "attend takes 'cu_query' but not 'cu_key'; a packed function takes both"),
    ("cu_key=None", "attend takes 'cu_key' but not 'cu_query'; a packed function takes both"),
    ("cu_query, cu_key, mask=None", "takes 'mask', which packed arrays have no place for. A packed function may take "
                                    "alibi_slopes, causal, "),
    ("cu_query, cu_key, key_lengths=None", "takes 'key_lengths', which packed arrays have no place for")])
def test_what_is_no_packed_function_is_refused(tmp_path: Path, parameters: str, said: str) -> None:
    with pytest.raises(TargetError) as refused:
        load_target(written(tmp_path, parameters))
    assert said in str(refused.value)


def judged(target: str, *clauses: str) -> Iterator[Outcome]:
    engine = Engine(Plan((target,), clauses=clauses, dtypes=(DType.FLOAT32,), effort=Effort.QUICK))
    return map(engine.try_item, engine.items())


def verdicts(target: str, *clauses: str) -> dict[str, Verdict]:
    return {outcome.clause: outcome.verdict for outcome in judged(target, *clauses)}


def test_a_packed_function_is_judged_by_ordinary_clauses() -> None:
    found = verdicts("numpy/packed", "packed.*", "lengths.definition", "attention.definition", "causal.no_lookahead",
                     "grouped.*", "masking.definition", "purity.strided_inputs")
    assert found.pop("masking.definition") is Verdict.INAPPLICABLE
    assert found.pop("purity.strided_inputs") is Verdict.INAPPLICABLE
    assert set(found.values()) == {Verdict.HELD}
    assert len(found) > 8


def test_a_packed_function_says_why_it_is_not_asked_about_layouts() -> None:
    engine = Engine(Plan(("numpy/packed",), clauses=("purity.strided_inputs",), dtypes=(DType.FLOAT32,),
                         effort=Effort.QUICK))
    [outcome] = [engine.try_item(item) for item in engine.items()]
    assert "a packed function's inputs are made by packing, so it is not asked about their layout" in outcome.reason


@pytest.mark.family(1)
@pytest.mark.parametrize("fault", [fault.name for fault in PACKED_FAULTS])
def test_every_packed_fault_is_detected(fault: str) -> None:
    found = judged(f"fault/{fault}", "packed.*", "attention.definition")
    assert any(outcome.verdict in {Verdict.VIOLATED, Verdict.ERRORED} for outcome in found)


# The words


@pytest.mark.parametrize("content", ["large", "nan"])
def test_the_last_entry_gets_other_content_and_is_not_compared(content: str) -> None:
    made = problem()
    after = replace_last_entry(Posed((made,)), content=content)  # type: ignore[arg-type]  # one of them
    assert [back.index.tolist() for back in after.back] == [[0, 1]]
    for name in ("query", "key", "value"):
        was, now = getattr(made, name), getattr(after.one, name)
        np.testing.assert_array_equal(now[:2], was[:2])
        assert not np.array_equal(now[2], was[2])


def test_nothing_is_put_into_the_last_entry_of_the_run_beside_it() -> None:
    made = problem()
    after = replace_last_entry(Posed((made,)), content="nothing")
    np.testing.assert_array_equal(after.one.key, made.key)
    assert [back.index.tolist() for back in after.back] == [[0, 1]]


def test_one_entry_alone_has_no_neighbour() -> None:
    with pytest.raises(NoClaim, match="there is one batch entry"):
        replace_last_entry(Posed((problem(sizes="B1,H4,Hkv2,T5,S7,D4,Dv6"),)), content="nan")


def test_content_that_would_overflow_makes_no_claim() -> None:
    wide = make_problem(Recipe.parse("B2,H1,Hkv1,T2,S2,D256,Dv4;mask=none;families=offset;seed=3"), DType.FLOAT16)
    with pytest.raises(NoClaim, match="a dot product with the new keys would overflow"):
        replace_last_entry(Posed((wide,)), content="large")
