"""The audit's table of gradients: where backward passes round, how near they came to their bound, what they give."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from attnspec.cli.report import with_findings
from attnspec.core.declaration import Harm
from attnspec.core.nouns import DType, Effort, Level, Verdict
from attnspec.core.paths import folder
from attnspec.core.plan import Plan
from attnspec.engine.subject_run import SubjectRun
from attnspec.engine.summon import load_subject
from attnspec.numerics.precision import declared_precision
from attnspec.numerics.roundings import declared_backward, format_backward
from attnspec.record.codec import from_line, to_line
from attnspec.record.events import Found, RunFinished, SubjectKnown, SubjectProbed
from attnspec.record.outcome import ClauseText, Evidence, KnownFinding, Measured, Outcome, SubjectCard
from attnspec.record.read import RunRecord
from attnspec.report.audit.markdown import audit_text
from attnspec.report.audit.table import HIDDEN_ROWS, GradientLine, Gradients, describe_gradients
from attnspec.report.audit.view import AUDIT_SUBJECTS
from attnspec.report.joined import join_records
from attnspec.report.page import render_page
from attnspec.spec.load import load_spec
from attnspec.subjects.manifest import read_manifest
from helpers.pages import section, spaced_words
from helpers.records import run_started

SUBJECT = "lib/layer"
MEASURED = Measured("agrees_with_definition", "it agrees", 0.5, 0.0, 0.1, 0.0, 0.0, (0,), 4, 4)
CARD = SubjectCard(SUBJECT, "a layer", "attention", "lib", "1.2", "", {}, {}, {}, ("gradients",), library="Lib",
                   backward={"float32": "float32", "float16": "G1, partial 32"})


def outcome(clause: str, verdict: Verdict = Verdict.HELD, *, margin: float = 0.5, dtype: DType = DType.FLOAT32,
            claimed: int = 4, reason: str = "", subject: str = SUBJECT) -> Outcome:
    worst = replace(MEASURED, margin=margin, claimed=claimed) if verdict in (Verdict.HELD, Verdict.VIOLATED) else None
    evidence = Evidence("it differs", "B=1", "B1", worst) if verdict is Verdict.VIOLATED else None
    return Outcome(subject, clause, dtype, Level.MUST, verdict, reason, int(bool(worst)), 0, worst, evidence)


def run(*outcomes: Outcome, cards: Iterable[SubjectCard] = (CARD,), probes: Iterable[SubjectProbed] = (),
        crowd: int = 0) -> RunRecord:
    """A run of these outcomes; crowd: how many others there are, of which no gradients are judged."""
    others = [f"other/subject{place:02}" for place in range(crowd)]
    known = [*cards, *(replace(CARD, id=name, claims=(), backward={}) for name in others)]
    told = [*outcomes, *(outcome("causal.all", subject=name) for name in others)]
    ids = dict.fromkeys(each.clause for each in told)
    return RunRecord(run_started(clauses=tuple(map(clause_text, ids))), tuple(map(SubjectKnown, known)), tuple(told),
                     RunFinished("", 1.0, {}, 0), probes=tuple(probes))


def clause_text(name: str) -> ClauseText:
    theme = name.partition(".")[0]
    return ClauseText(name, theme, profile=theme, says=f"{name} holds.", needs=("params",) * ("proj" in name))


def looked(record: RunRecord) -> Gradients:
    found = describe_gradients(join_records([record]))
    assert found is not None
    return found


def line_of(*outcomes: Outcome, card: SubjectCard = CARD, probes: Iterable[SubjectProbed] = ()) -> GradientLine:
    [line] = looked(run(*outcomes, cards=(card,), probes=probes)).lines
    return line


def row_of(*outcomes: Outcome, probes: Iterable[SubjectProbed] = ()) -> list[tuple[str, tuple[str, ...]]]:
    return [(each.answer, each.forms) for each in line_of(*outcomes, probes=probes).row]


def probed(*found: tuple[str, str], variant: str = "") -> SubjectProbed:
    return SubjectProbed(SUBJECT, variant, DType.FLOAT32, tuple(Found(name, f"{name}?", told) for name, told in found))


@pytest.mark.parametrize("outcomes", [
    [], [outcome("gradients.of_query", Verdict.INAPPLICABLE, reason="it has no backward pass")],
    [outcome("gradients.of_query", Verdict.NOT_RUN)]])
def test_without_gradients_that_were_judged_there_is_no_table(outcomes: list[Outcome]) -> None:
    record = run(*outcomes, outcome("causal.all"), crowd=AUDIT_SUBJECTS)
    assert 'id="gradients"' not in render_page([record])
    assert 'href="#gradients"' not in render_page([record])
    assert "## Gradients" not in audit_text([record])


def test_the_page_and_the_text_tell_where_a_backward_pass_rounds() -> None:
    judged = [outcome("gradients.of_query", margin=0.25), outcome("gradients.of_key", margin=0.125),
              outcome("gradients.rounding", margin=0.75, dtype=DType.FLOAT16)]
    record = run(*judged, crowd=AUDIT_SUBJECTS)
    assert ("| `lib/layer` | 3 of 3 | f32 float32; f16 G1, partial 32 | 0.25 (f32 `gradients.of_query`), 0.75 (f16 "
            "`gradients.rounding`) |  |  | query, key |  |") in audit_text([record])
    page = render_page([record])
    assert 'href="#gradients"' in page
    table = section(page, "gradients")
    assert "lib/ layer 3 of 3 f32 float32 f16 G1, partial 32 f32 0.25 f16 0.75 query, key" in spaced_words(table)
    assert 'title="gradients.rounding"' in table
    assert "other/subject00" not in table


def test_a_record_that_does_not_say_where_it_rounds_leaves_that_open() -> None:
    record = run(outcome("gradients.of_query"), cards=[replace(CARD, backward={})], crowd=AUDIT_SUBJECTS)
    assert "| `lib/layer` | 1 of 1 | – | 0.5 (f32 `gradients.of_query`) |" in audit_text([record])
    assert "1 of 1 – f32" in spaced_words(section(render_page([record]), "gradients"))


def test_gradients_that_are_wrong_are_named_and_not_the_closest() -> None:
    judged = [outcome("gradients.of_query", margin=0.25), outcome("gradients.of_key", Verdict.VIOLATED, margin=9.0),
              outcome("gradients.of_sinks", Verdict.INAPPLICABLE, reason="it takes none")]
    record = run(*judged, crowd=AUDIT_SUBJECTS)
    assert "| 1 of 2, not `gradients.of_key` |" in audit_text([record])
    table = section(render_page([record]), "gradients")
    assert "1 of 2 1 not held gradients. of_ key" in spaced_words(table)
    assert 'href="#clause-gradients.of_key"' in table
    assert [(near.margin, near.clause) for near in line_of(*judged).closest] == [(0.25, "gradients.of_query")]


def test_a_documented_choice_breaks_no_clause_about_gradients() -> None:
    choice = KnownFinding("lib/chosen", "It is chosen", ("gradients.*",), (), "", "its manual", "",
                          harm=Harm.DOCUMENTED_CHOICE)
    line = line_of(outcome("gradients.of_query"), outcome("gradients.of_key", Verdict.VIOLATED),
                   card=replace(CARD, findings=(choice,)))
    assert (line.held_share, line.broken_clauses) == ("1 of 1", ())


def test_a_hidden_rows_own_gradient_is_zeros_where_that_was_claimed() -> None:
    assert row_of(outcome(HIDDEN_ROWS)) == [("zeros", ("its own",))]
    assert row_of(outcome(HIDDEN_ROWS, claimed=2)) == [("no claim", ("its own",))]
    assert row_of(outcome("gradients.of_key"), outcome(HIDDEN_ROWS, Verdict.NO_CLAIM)) == [("no claim", ("its own",))]
    assert row_of(outcome(HIDDEN_ROWS), outcome(HIDDEN_ROWS, Verdict.VIOLATED, dtype=DType.FLOAT16)) == [
        ("wrong", ("its own",))]
    assert row_of(outcome("gradients.of_key"), outcome(HIDDEN_ROWS, Verdict.INAPPLICABLE)) == []


def test_what_a_hidden_row_does_to_others_is_what_a_probe_found() -> None:
    found = probed(("gradient.hidden_row.mask", "finite"), ("gradient.hidden_row.bias", "nan"),
                   ("gradient.hidden_key.mask", "zero"), ("gradient.hidden_key.causal", "zero"))
    compiled = probed(("gradient.hidden_row.mask", "nan"), variant="compiled")
    record = run(outcome("gradients.of_query"), probes=[found, compiled], crowd=AUDIT_SUBJECTS)
    assert "| finite (others: mask); nan (others: bias) | zero | query |" in audit_text([record])
    assert "finite others: mask nan others: bias zero query" in spaced_words(section(render_page([record]),
                                                                                     "gradients"))
    alike = probed(("gradient.hidden_row.mask", "finite"), ("gradient.hidden_row.bias", "finite"))
    assert row_of(outcome("gradients.of_query"), probes=[alike]) == [("finite", ("others",))]


def test_what_gradients_were_not_judged_of_is_told_with_the_reason() -> None:
    layer = replace(CARD, kind="layer", claims=("gradients", "bias"))
    judged = [outcome("gradients.of_value"), outcome("gradients.of_query"), outcome("gradients.of_scale"),
              outcome("gradients.of_bias", Verdict.INAPPLICABLE, reason="a bias is a constant to it"),
              outcome("gradients.of_sinks", Verdict.INAPPLICABLE, reason=f"{SUBJECT} takes no sinks"),
              outcome("gradients.of_input_projections"),
              outcome("gradients.of_output_projection", Verdict.INAPPLICABLE, reason=f"{SUBJECT} has no w_out")]
    line = line_of(*judged, card=layer)
    assert line.given_arrays == ("query", "value", "input projections")
    assert line.ungiven == {"a bias is a constant to it": ("bias",), "it has no w_out": ("output projection",)}
    record = run(*judged, cards=[layer], crowd=AUDIT_SUBJECTS)
    text, table = audit_text([record]), section(render_page([record]), "gradients")
    assert "| query, value, input projections | bias, output projection |" in text
    assert ("Why some were not judged with respect to everything:\n\n- a bias is a constant to it: `lib/layer`\n"
            "- it has no w_out: `lib/layer`\n") in text
    assert '<span class="one" title="a bias is a constant to it">bias</span>' in table
    assert "not judged with respect to everything a bias is a constant to it: lib/layer" in spaced_words(table)


def test_what_is_no_layer_lacks_no_parameters() -> None:
    refused = outcome("gradients.of_input_projections", Verdict.INAPPLICABLE, reason="it takes no params")
    assert line_of(outcome("gradients.of_query"), refused).ungiven == {}


def test_who_has_no_gradients_is_told_by_the_reason() -> None:
    two = [replace(CARD, id=name, claims=()) for name in ("lib/numpy", "lib/other")]
    silent = [outcome("gradients.of_query", Verdict.INAPPLICABLE, reason=f"{each.id} has no backward pass",
                      subject=each.id) for each in two]
    record = run(outcome("gradients.of_query"), *silent, cards=[CARD, *two], crowd=AUDIT_SUBJECTS)
    assert ("Of which no gradients were judged, and why:\n\n- it has no backward pass: `lib/numpy`, `lib/other`\n"
            in audit_text([record]))
    assert "it has no backward pass: lib/numpy, lib/other" in spaced_words(section(render_page([record]), "gradients"))
    assert [line.subject.card.id for line in looked(record).lines] == [SUBJECT]


@pytest.mark.parametrize(("dtype", "forward", "backward", "name"), [
    (DType.FLOAT32, {}, {}, "float32"),
    (DType.FLOAT64, {}, {"logits": 0}, "float64, logits 0"),
    (DType.FLOAT16, {"grade": "G1", "reason": "so it is"}, {}, "G1"),
    (DType.BFLOAT16, {"grade": "G1", "reason": "so it is"}, {"partial": 32, "reason": "blocks"}, "G1, partial 32"),
    (DType.BFLOAT16, {}, {"is_recomputed": False}, "G3, is_recomputed False")])
def test_a_backward_class_is_named_after_the_forward_pass(dtype: DType, forward: dict[str, object],
                                                          backward: dict[str, object], name: str) -> None:
    precision = declared_precision(forward, dtype)
    assert format_backward(precision, declared_backward(backward, precision)) == name


def test_a_card_tells_where_the_backward_pass_of_a_run_rounds() -> None:
    plan = Plan(("numpy/training", "numpy/attention"), effort=Effort.GLANCE)
    told, silent = (SubjectRun(load_subject(target, plan), plan, lambda _: None).card for target in plan.targets)
    assert told.backward == {"float64": "float64", "float32": "float32", "float16": "G0", "bfloat16": "G0"}
    assert silent.backward == {}


def test_an_older_record_learns_from_manifests_where_it_rounds() -> None:
    [declared] = (each.declaration for each in read_manifest(folder("implementations") / "torch")
                  if each.id == "torch/sdpa")
    forward = {dtype.value: str(declared_precision(declared.precision.get(dtype), dtype)) for dtype in DType}
    old = replace(CARD, id="torch/sdpa", version="2.13.0", precision=forward, backward={})
    known = {"float64": "float64", "float32": "float32", "float16": "G1, partial 32", "bfloat16": "G1, partial 32"}
    assert retold(old).backward == known
    assert retold(replace(old, backward={"float32": "as it was"})).backward == {"float32": "as it was"}
    assert retold(replace(old, claims=())).backward == {}
    assert retold(replace(old, precision={**forward, "float16": "G4"})).backward == {
        dtype: name for dtype, name in known.items() if dtype != "float16"}


def retold(card: SubjectCard) -> SubjectCard:
    event = with_findings(SubjectKnown(card))
    assert isinstance(event, SubjectKnown)
    return event.card


def test_a_card_without_the_field_is_read() -> None:
    line = to_line(SubjectKnown(replace(CARD, backward={})))
    assert from_line(line.replace(', "backward": {}', "")) == SubjectKnown(replace(CARD, backward={}))


def test_the_clauses_that_the_table_reads_are_in_the_spec() -> None:
    ids = {clause.id for clause in load_spec().clauses}
    assert {HIDDEN_ROWS, *(f"gradients.of_{name}" for name in ("query", "key", "value", "bias", "sinks"))} <= ids
