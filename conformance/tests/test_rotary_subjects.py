"""Rotary embeddings as subjects: who is one, what it is asked, what is found wrong with it, and what `init` writes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from attnspec.aspects.rotary.faults import MISTAKES
from attnspec.aspects.rotary.formulations import FORMULATIONS
from attnspec.cli.manifests import init, probe
from attnspec.core.errors import TargetError
from attnspec.core.nouns import DType, Effort, Kind, Verdict
from attnspec.core.plan import Plan
from attnspec.core.surroundings import Surroundings
from attnspec.engine.engine import Engine
from attnspec.faults.fault import Fault
from attnspec.numerics.rotary import ROTARY_PAIRS
from attnspec.problems.make import make_rotary
from attnspec.problems.problem import Recipe
from attnspec.questions.undeclared import probe_conventions
from attnspec.record.outcome import Outcome
from attnspec.report.bugs import likely_words
from attnspec.spec.clause import read_refutations
from attnspec.spec.load import load_spec
from attnspec.subjects.registry import load_target
from attnspec.subjects.smoke import smoke_subject
from attnspec.subjects.subject import Subject
from click.testing import CliRunner, Result

TURNS = """
import numpy as np

def rotate(x, positions, *, base=10000.0, rotary_width=None, interleaved=False):
    width = x.shape[-1] if rotary_width is None else rotary_width
    angle = positions[:, None, :, None] * base ** -(np.arange(0, width, 2) / width)
    cos, sin = np.cos(angle).astype(x.dtype), np.sin(angle).astype(x.dtype)
    one, two = (slice(0, width, 2), slice(1, width, 2)) if interleaved else (
        slice(width // 2), slice(width // 2, width))
    output = x.copy()
    output[..., one], output[..., two] = (x[..., one] * cos - x[..., two] * sin,
                                          x[..., two] * cos + x[..., one] * sin)
    return output

rotate.dtypes = ["float64", "float32"]
"""
OF_ONE_KIND = TURNS.replace(", *, base=10000.0, rotary_width=None, interleaved=False", "").replace(
    "    width =", "    base, rotary_width, interleaved = 10000.0, None, True\n    width =")


def mine(folder: Path, source: str = TURNS) -> Subject:
    (folder / "mine.py").write_text(source, encoding="utf-8")
    return load_target(f"{folder / 'mine.py'}:rotate", surroundings=Surroundings())


def outcomes(target: str, clauses: str = "rotary.*", *dtypes: DType) -> dict[str, Outcome]:
    """What comes of a subject's items, by clause and dtype."""
    engine = Engine(Plan((target,), clauses=(clauses,), dtypes=dtypes, effort=Effort.QUICK))
    return {f"{item.clause} {item.dtype}": engine.try_item(item) for item in engine.items()}


# Who is one


def test_a_function_is_recognised_by_its_second_parameter(tmp_path: Path) -> None:
    declared = mine(tmp_path).declaration
    assert declared.kind is Kind.ROTARY
    assert declared.keywords == {"positions", "base", "rotary_width", "interleaved"}


@pytest.mark.parametrize(("parameters", "message"), [
    ("x, positions, bases=1.0", "takes 'bases', which is no keyword of a rotary embedding. Did you mean 'base'?"),
    ("x, positions, base, /", "takes 'base' by position only, but attnspec gives only x and positions by position"),
    ("x, positions, table", "needs 'table'; a rotary embedding can be called with x and positions alone: rotate(x, ")])
def test_what_attnspec_cannot_call_is_refused(tmp_path: Path, parameters: str, message: str) -> None:
    with pytest.raises(TargetError, match=re.escape(message)):
        mine(tmp_path, f"def rotate({parameters}):\n    return x\n")


def test_other_parameters_keep_their_defaults(tmp_path: Path) -> None:
    assert mine(tmp_path, "def rotate(x, positions, table=None): return x\n").declaration.defaults == {"table": "None"}


def test_attention_and_rotary_embeddings_are_put_their_own_problems(tmp_path: Path) -> None:
    made = make_rotary(Recipe.parse("B1,H2,Hkv2,T3,S3,D4,Dv4;mask=none;families=normal;with=positions;positions=far;"
                                    "seed=1"), DType.FLOAT32)
    assert load_target("numpy/attention").refuses(made) == "numpy/attention is not a rotary embedding"
    assert not mine(tmp_path).refuses(made)
    wide = made.but(x=np.zeros((1, 2, 3, 5), np.float32))
    assert "D" in mine(tmp_path).refuses(wide)


@pytest.mark.nightly
def test_who_takes_no_base_is_not_put_one(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OF_ONE_KIND, encoding="utf-8")
    found = outcomes(f"{tmp_path / 'mine.py'}:rotate", "rotary.*", DType.FLOAT32)
    left = {name.split()[0] for name, each in found.items() if each.verdict is Verdict.INAPPLICABLE}
    assert left == {"rotary.base_is_used", "rotary.rest_is_untouched", "rotary.pairs_as_declared"}
    assert {each.verdict for each in found.values()} == {Verdict.INAPPLICABLE, Verdict.HELD}


# What it is asked


def test_smoke_names_every_call_that_is_put_first(tmp_path: Path) -> None:
    lines = smoke_subject(mine(tmp_path))
    assert [line.sentence for line in lines if not line.has_passed] == []
    assert len(lines) == 5
    still = smoke_subject(mine(tmp_path,
                               "import numpy as np\ndef rotate(x, positions): return x / (positions[0, 0] < 9)\n"))
    assert [line.sentence for line in still if not line.has_passed] == ["tokens at position 131072 give finite numbers"]


@pytest.mark.parametrize(("source", "answer"), [
    (OF_ONE_KIND, "interleaved"), (OF_ONE_KIND.replace("None, True", "None, False"), "halves"),
    ("def rotate(x, positions): return x\n", "undefined")])
def test_a_probe_tells_which_features_are_a_pair(tmp_path: Path, source: str, answer: str) -> None:
    assert probe_conventions(mine(tmp_path, source), DType.FLOAT32) == {ROTARY_PAIRS: answer}


def test_who_takes_the_flag_has_no_convention_of_pairs(tmp_path: Path) -> None:
    assert probe_conventions(mine(tmp_path), DType.FLOAT32) == {}


def probed(target: str) -> Result:
    return CliRunner().invoke(probe, [target, "--dtype", "float32", "--no-record"], standalone_mode=False)


@pytest.mark.family(1)
@pytest.mark.parametrize(("target", "pairs", "place"), [
    ("sound/rotary_staged", "halves  (as claimed)", 131072),
    ("fault/rotary_cache_clamped", "halves  (as claimed)", 2047),
    ("fault/rotary_positions_in_16_bits", "halves  (as claimed)", 32767),
    ("fault/rotary_pairs_swapped", "interleaved, but the manifest claims halves", 131072)])
def test_probe_answers_pairs_and_the_farthest_place(target: str, pairs: str, place: int) -> None:
    told = probed(target).output
    assert re.search(rf"rotary\.pairs +{re.escape(pairs)}", told)
    assert re.search(rf"rotary\.farthest +{place} ", told)


@pytest.mark.nightly
def test_a_place_that_raises_is_beyond_the_farthest(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(TURNS.replace("    width =", "    assert positions.max() < 2048\n    width ="),
                                      encoding="utf-8")
    assert re.search(r"rotary\.farthest +2047 ", probed(f"{tmp_path / 'mine.py'}:rotate").output)


# What is found wrong with it


@pytest.mark.parametrize("fault", MISTAKES.about["positions"], ids=lambda fault: fault.name)
def test_every_rotary_fault_is_detected_by_rotary_clauses_at_every_dtype(fault: Fault) -> None:
    matrix = read_refutations(load_spec()).convictions
    detected = {dtype for clause, faults in matrix.items() if clause.startswith("rotary.")
                for dtype in faults.get(fault.name, ())}
    assert detected == set(DType) - set(fault.equivalents)


@pytest.mark.family(1)
@pytest.mark.parametrize("name", [each.name for each in FORMULATIONS])
def test_no_sound_rotary_formulation_violates_a_clause(name: str) -> None:
    found = outcomes(f"sound/{name}", "rotary.*", DType.FLOAT16)
    assert {each.verdict for each in found.values()} == {Verdict.HELD}


@pytest.mark.family(1)
@pytest.mark.parametrize(("fault", "clause"), [
    ("rotary_pairs_swapped", "rotary.definition"), ("rotary_cache_clamped", "rotary.scores_depend_on_differences"),
    ("rotary_base_ignored", "rotary.base_is_used")])
def test_a_diagnosis_names_what_is_wrong_with_a_rotary_embedding(fault: str, clause: str) -> None:
    [found] = outcomes(f"fault/{fault}", clause, DType.FLOAT32).values()
    assert found.evidence
    assert found.evidence.like[0].fault == fault


@pytest.mark.family(1)
@pytest.mark.parametrize(("angle", "verdict"), [("float32", Verdict.VIOLATED), ("bfloat16", Verdict.HELD)])
def test_half_precision_angles_are_wrong_unless_declared(tmp_path: Path, angle: str, verdict: Verdict) -> None:
    source = TURNS.replace('["float64", "float32"]', '["bfloat16"]').replace(
        "    cos, sin", "    half = positions.astype(x.dtype)[:, None, :, None]\n"
        "    angle = half * (base ** -(np.arange(0, width, 2) / width)).astype(x.dtype)\n"
        "    angle = angle.astype(np.float32)\n    cos, sin")
    source += f"rotate.precision = {{'bfloat16': {{'grade': 'G3', 'angle': '{angle}', 'reason': 'a test'}}}}\n"
    (tmp_path / "mine.py").write_text(source, encoding="utf-8")
    [found] = outcomes(f"{tmp_path / 'mine.py'}:rotate", "rotary.far_positions", DType.BFLOAT16).values()
    assert found.verdict is verdict


@pytest.mark.family(1)
@pytest.mark.parametrize(("declared", "verdict"), [("", Verdict.VIOLATED), (
    "rotate.precision = {'float64': {'angle': 'float32', 'rotation': 'float32', 'reason': 'a test'}}\n", Verdict.HELD)])
def test_who_declares_float32_inside_may_round_a_float64(tmp_path: Path, declared: str, verdict: Verdict) -> None:
    source = TURNS.replace("def rotate(", "def turn(").replace("rotate.dtypes", "turn.dtypes") + (
        "\ndef rotate(x, positions):\n    return turn(x.astype(np.float32), positions).astype(x.dtype)\n\n")
    (tmp_path / "mine.py").write_text(source + declared, encoding="utf-8")
    [found] = outcomes(f"{tmp_path / 'mine.py'}:rotate", "rotary.position_zero_is_identity", DType.FLOAT64).values()
    assert found.verdict is verdict


def test_a_rotation_that_is_right_where_all_features_are_turned_is_told_so(tmp_path: Path) -> None:
    halved = TURNS.replace("angle = ", "angle = (1.0 if width == x.shape[-1] else 0.5) * ")
    (tmp_path / "mine.py").write_text(halved, encoding="utf-8")
    [failed] = outcomes(f"{tmp_path / 'mine.py'}:rotate", "rotary.rest_is_untouched", DType.FLOAT32).values()
    assert likely_words([failed]) == ("Likely one bug: the answer is wrong here, and right once a rotary width < D is "
                                      "left out (explains 1 of 1)")


# What init writes


THEIRS = TURNS + """
def neox(q, position_ids, theta=10000.0, is_neox_style=True):
    return rotate(q.swapaxes(1, 2), position_ids, base=theta, interleaved=not is_neox_style).swapaxes(1, 2)

def partly(x, pos, rotary_dim):
    return rotate(x, pos, rotary_width=+rotary_dim, interleaved=True)

def untouched(x, positions):
    return x
"""


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "their_rotary.py").write_text(THEIRS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "found", "called"), [
    ("neox", ["x (B,T,H,D), and positions (B,T) as position_ids", "`base` is its theta.",
              "`interleaved` is its is_neox_style, given not interleaved."], "is_neox_style=not interleaved"),
    ("partly", ["x (B,H,T,D), and positions (B,T) as pos", "given x.shape[-1] if rotary_width is None",
                "Pairs are interleaved: features 2i and 2i+1."],
     "rotary_dim=x.shape[-1] if rotary_width is None else rotary_width")])
def test_init_finds_out_how_a_rotary_embedding_is_called(
    theirs: Path, name: str, found: list[str], called: str,
) -> None:
    told = CliRunner().invoke(init, [f"their_rotary:{name}"], standalone_mode=False)
    assert told.exception is None
    for sentence in found:
        assert sentence in told.output
    assert called in (theirs / f"implementations/their_rotary/{name}.py").read_text(encoding="utf-8")
    engine = Engine(Plan((f"their_rotary/{name}",), clauses=("rotary.definition",), implementations=(
        str(theirs / "implementations"),), effort=Effort.QUICK))
    assert {engine.try_item(item).verdict for item in engine.items()} == {Verdict.HELD}


@pytest.mark.nightly
def test_init_says_that_a_function_turns_nothing(theirs: Path) -> None:
    told = CliRunner().invoke(init, ["their_rotary:untouched"], standalone_mode=False)
    assert "looks like a rotary embedding, since its second parameter is 'positions'; but it turns no pairs" in str(
        told.exception)
    assert not (theirs / "implementations").exists()
