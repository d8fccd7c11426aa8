"""The law is read as it is written."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
import yaml
from attnspec.core import paths
from attnspec.core.errors import FileLocation, ManifestError, SpecError
from attnspec.core.nouns import DType, Level
from attnspec.core.texts import other_script
from attnspec.spec import load, yaml_lines
from attnspec.spec.clause import Clause
from attnspec.spec.load import hand_over_law, load_spec, read_bibliography, take_over_law
from attnspec.spec.yaml_lines import Fields, Located, LocatedList, load_yaml, parse_yaml, shown_path
from helpers.places import SMALL_SPEC


def clause(folder: Path, identity: str) -> Clause:
    return next(clause for clause in load_spec(folder).clauses if clause.id == identity)


def test_clauses_come_in_the_order_of_their_files() -> None:
    ids = [clause.id for clause in load_spec(SMALL_SPEC).clauses]
    assert ids == ["causal.no_lookahead", "scale.inverse_root_width"]


def test_a_law_that_was_handed_over_is_not_read_again(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    law = load_spec(spec)
    hand_over_law(tmp_path / "law")
    monkeypatch.setattr(load, "_read_laws", {})
    take_over_law(tmp_path / "law")
    monkeypatch.setattr(load, "parse_yaml", None)
    taken = load_spec(spec)
    assert (taken.digest, taken.clauses, taken.problems) == (law.digest, law.clauses, law.problems)
    assert taken.clauses[0].place_of("says") == law.clauses[0].place_of("says")


def test_a_law_whose_files_have_changed_is_read_again(spec: Path, tmp_path: Path) -> None:
    load_spec(spec)
    hand_over_law(tmp_path / "law")
    (spec / "spec.yaml").write_text("version: 9.9.9\n", encoding="utf-8")
    take_over_law(tmp_path / "law")
    assert load_spec(spec).version == "9.9.9"


def test_a_clause_carries_what_its_file_says(spec: Path) -> None:
    law = clause(spec, "causal.no_lookahead")
    assert (law.theme, law.level, law.profile) == ("causal", Level.MUST, "causal")
    assert law.formula == r"A_{ij} = 0 \quad (j > i)"
    assert law.where == FileLocation("spec/causal.yaml", 3)
    assert law.because[0].quote == "使其只能关注到之前已经生成的 token 上"
    assert law.because[0].translation == "only to tokens generated before"
    assert law.because[1].where == FileLocation("spec/causal.yaml", 10)
    assert law.refuted_by == ("causal_ignored",)


def test_a_clause_on_a_chinese_note_cites_an_english_source_too() -> None:
    law = load_spec()
    titles = {key: source.title for key, source in law.bibliography.items()}
    chinese = {clause.id for clause in law.clauses
               if all(other_script(titles[citation.cite]) for citation in clause.because)}
    assert any(other_script(title) for title in titles.values())
    assert chinese == set()


def test_a_quote_in_english_needs_no_translation() -> None:
    in_english = [citation for clause in load_spec().clauses for citation in clause.because
                  if citation.quote and not other_script(citation.quote)]
    assert in_english
    assert [citation for citation in in_english if citation.translation] == []


@pytest.mark.parametrize(("text", "letter"), [
    ("讓美的詞的權重分布在0~1", "讓"), ("softmax 產生", "產"), ("маска", "м"), ("マスク", "マ"),
    ("softmax(QKᵀ/√d_k) V, 𝑥 ∈ ℝ", ""), ("naïve σ and Σ", ""), ("(½,0,0,½) − ∞", "")])
def test_letters_of_other_scripts_are_told_from_english_and_its_formulas(text: str, letter: str) -> None:
    assert other_script(text) == letter


def test_what_is_always_in_use_is_needed_as_well_as_what_is_named(spec: Path) -> None:
    assert clause(spec, "causal.no_lookahead").needs == {"causal", "return_weights"}


def test_a_problem_is_merged_into_the_clause_which_may_override_it(spec: Path) -> None:
    path = spec / "scale.yaml"
    path.write_text(path.read_text().replace("{problem: any_attention}", "{problem: any_attention, grouped: always}"))
    given = clause(spec, "scale.inverse_root_width").given
    assert given.args == {"kind": "attention", "sometimes": ["mask", "bias"], "grouped": "always"}


def test_each_merged_argument_keeps_the_place_where_it_stands(spec: Path) -> None:
    given = clause(spec, "causal.no_lookahead").given
    assert isinstance(given.args, Located)
    assert given.args.place_of("lengths") == FileLocation("spec/problems.yaml", 3)
    assert given.args.place_of("always") == FileLocation("spec/causal.yaml", 12)


def test_words_keep_their_arguments_and_places(spec: Path) -> None:
    law = clause(spec, "causal.no_lookahead")
    [moved] = law.runs["later_moved"]
    assert (moved.name, moved.args["arrays"], moved.where.line) == ("replace_after", ["key", "value"], 15)
    assert law.runs["original"] == ()
    assert [word.name for word in law.then] == ["agree"]


def test_a_clause_without_runs_has_one_that_changes_nothing(spec: Path) -> None:
    path = spec / "scale.yaml"
    text = path.read_text()
    path.write_text(text[: text.index("    runs:")] + "    then: [is_finite]\n")
    law = clause(spec, "scale.inverse_root_width")
    assert law.runs == {"original": ()}
    assert law.then[0].args == {}


def test_the_digest_is_of_every_byte_in_the_order_of_names(spec: Path) -> None:
    everything = b"".join(path.read_bytes() for path in sorted(spec.iterdir()))
    assert load_spec(spec).digest == hashlib.sha256(everything).hexdigest()
    (spec / "scale.yaml").write_bytes((spec / "scale.yaml").read_bytes() + b"# a comment\n")
    assert load_spec(spec).digest != hashlib.sha256(everything).hexdigest()


def test_the_shipped_bibliography_holds_the_documents() -> None:
    sources = read_bibliography(load_yaml(paths.folder("spec") / "bibliography.yaml"))
    documents = {"msa_note", "self_attention_note", "self_attention_article", "aiayn_notes", "vaswani2017"}
    assert documents <= set(sources)
    assert (sources["vaswani2017"].title, sources["vaswani2017"].year) == ("Attention Is All You Need", "2017")


@pytest.mark.parametrize(("text", "value"), [
    ("1e-9", 1e-9), ("1.0e-9", 1e-9), ("-.5", -0.5), ("+3", 3), ("010", 10), ("on", "on"), ("no", "no"), ("true", True),
    ("~", None), ("'1'", "1"), ("2024-03-28", "2024-03-28"), ("12:30", "12:30"), (".inf", float("inf")),
    ("1_000", "1_000"), ("0.1.0", "0.1.0"), ("|\n  two\n  lines", "two\nlines"), ("[]", []), ("{}", {}), ("=", "="),
])
def test_plain_values_mean_what_yaml_1_2_says(text: str, value: object) -> None:
    assert parse_yaml(f"key: {text}".encode(), "a.yaml") == {"key": value}


def test_every_mapping_key_and_entry_knows_its_line() -> None:
    document = parse_yaml(b"\n\na:\n  - b: 1\n    c: 2\n  - 3\n", "a.yaml")
    entries = document["a"]
    assert isinstance(entries, LocatedList)
    assert (document.place_of("a").line, entries[0].place_of("c").line, entries.place_of(1).line) == (3, 5, 6)
    assert entries.place_of(7) == entries.place
    assert document.place_of("absent") == document.place


def test_the_slow_parser_reads_and_refuses_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_lines, "_PARSER", yaml.SafeLoader)
    assert load_spec(SMALL_SPEC) == load_spec(SMALL_SPEC)
    assert parse_yaml(b"a: '1'\nb: 1", "a.yaml") == {"a": "1", "b": 1}
    with pytest.raises(SpecError, match=r"a\.yaml:2: the key 'a' is given twice; first on line 1\."):
        parse_yaml(b"a: 1\na: 2", "a.yaml")
    told = r"a\.yaml:1: holds the character U\+0001, which is invisible\. Leave it out\."
    with pytest.raises(SpecError, match=told):
        parse_yaml(b"a: \x01", "a.yaml")


def test_a_path_is_shown_as_the_user_knows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown_path(paths.folder("spec") / "causal.yaml") == "spec/causal.yaml"
    assert shown_path(tmp_path / "mine" / "manifest.yaml") == "mine/manifest.yaml"
    assert shown_path(Path("mine/manifest.yaml")) == "mine/manifest.yaml"
    assert shown_path(Path("/elsewhere/a.yaml")) == "/elsewhere/a.yaml"


def test_fields_read_each_kind_and_fall_back_where_they_may() -> None:
    text = b"t: ' x '\nl: [a, b]\nf: true\ni: 3\nn: 4\nu: https://a.b\nd: [float32]\n"
    fields = Fields(parse_yaml(text, "m.yaml"), "it")
    assert (fields.text("t"), fields.texts("l"), fields.flag("f")) == ("x", ("a", "b"), True)
    assert (fields.integer("i"), fields.number("n"), fields.url("u")) == (3, 4.0, "https://a.b")
    assert fields.choices("d", DType) == (DType.FLOAT32,)
    assert (fields.text("z", "y"), fields.texts("z", ("y",)), fields.flag("z", default=True)) == ("y", ("y",), True)
    assert (fields.integer("z", 5), fields.number("z", 0.5), fields.url("z", "")) == (5, 0.5, "")
    assert fields.choice("z", DType, DType.FLOAT16) is DType.FLOAT16
    assert fields.choices("z", DType, ()) == ()
    assert fields.inner("z", optional=True).mapping == {}
    assert list(fields.read_each("z", "one", optional=True)) == []


def test_fields_complain_as_the_error_they_were_given() -> None:
    fields = Fields(parse_yaml(b"dtypes: [float32,\n  flot16]\n", "m.yaml", error=ManifestError), "it", ManifestError)
    with pytest.raises(ManifestError, match=r"m\.yaml:2: 'flot16' is not a known dtype\. Did you mean 'float16'\?"):
        fields.choices("dtypes", DType, kind="dtype")


def test_a_path_that_cannot_be_opened_is_named_with_the_cause() -> None:
    with pytest.raises(SpecError, match=r"cannot be read: embedded null byte\."):
        load_yaml(Path("a\0b"))


def test_a_clause_knows_where_each_of_its_keys_stands(spec: Path) -> None:
    law = clause(spec, "causal.no_lookahead")
    assert law.place_of("refuted_by") == FileLocation("spec/causal.yaml", 18)
    assert law.place_of("note") == law.where
