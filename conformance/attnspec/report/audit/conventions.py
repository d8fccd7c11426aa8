"""Tabulates what each implementation does where libraries differ, and what hidden switches change.

The answers stand in a table with a row for each implementation, and once more by question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import chain

from attnspec.core.conventions import CONVENTIONS
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import DType
from attnspec.core.texts import count_noun
from attnspec.record.events import Found, SubjectProbed
from attnspec.record.outcome import KnownFinding, is_choice
from attnspec.report.figures import SHORT_NAMES
from attnspec.report.joined import JoinedRecords, JudgedSubject

SAME_ANSWER = "agree"  # of a switch that makes no difference
SWITCHED_QUESTIONS = ("gradient.flow",)  # a switch is there to change their answers


class ManifestWord(Enum):
    """What the manifest says of a disagreement."""

    DECLARED = "declared"
    AGAINST = "the manifest says otherwise"
    OPEN = ""


@dataclass(frozen=True, slots=True)
class SwitchDifference:
    """A question to which a variant answers otherwise than the subject, with both answers.
    question_text: the question, or the problem that was put to both.  plain: the subject's answer.
    """

    variant: str
    question_text: str
    plain: str
    flipped_answer: str
    detail: str
    dtypes: str
    manifest_word: ManifestWord


@dataclass(frozen=True, slots=True)
class Switches:
    """A subject, the variants that were tried, and where they differ. lost_variants: variants that
    gave no answer, each with the reason.
    """

    subject: JudgedSubject
    variants: tuple[str, ...]
    flips: tuple[SwitchDifference, ...]
    lost_variants: tuple[tuple[str, str], ...]

    @property
    def quiet(self) -> tuple[str, ...]:
        """The variants that always answer as the subject itself does."""
        others = {flip.variant for flip in self.flips} | dict(self.lost_variants).keys()
        return tuple(variant for variant in self.variants if variant not in others)


def compare_switches(joined: JoinedRecords) -> tuple[Switches, ...]:
    """Compares every subject with its probed variants; those that differ come first."""
    panels = [_switches_of_subject(subject, joined.probes.get(subject.number, ()))
              for subject in joined.subjects]
    return tuple(sorted((each for each in panels if each.variants),
                        key=lambda each: not each.flips))


def _switches_of_subject(subject: JudgedSubject, probes: Sequence[SubjectProbed]) -> Switches:
    of_variants = [probe for probe in probes if probe.variant]
    plain = {probe.dtype: _group_by_question(probe) for probe in probes if not probe.variant}
    differences = [difference for probe in of_variants
                   for difference in _switch_differences(probe, plain.get(probe.dtype, {}))]
    lost = {probe.variant: probe.lost for probe in of_variants if probe.lost}
    variants = tuple(dict.fromkeys(probe.variant for probe in of_variants))
    flips = sorted(_merge_dtypes(differences), key=lambda flip: variants.index(flip.variant))
    return Switches(subject, variants, tuple(flips), tuple(lost.items()))


def _group_by_question(probe: SubjectProbed) -> Mapping[str, Found]:
    return {found.question: found for found in probe.found}


def _switch_differences(probe: SubjectProbed,
                        plain: Mapping[str, Found]) -> Iterable[SwitchDifference]:
    """Yields where a variant differs: first in problems put to both, then in its own answers."""
    dtype = SHORT_NAMES[probe.dtype]
    compared = [found for found in probe.found if _is_switch(found)]
    for found in compared:
        if found.answer != SAME_ANSWER:
            problem = (found.asks.partition(": ")[2] or found.asks).rstrip("?")
            answers = _split_answers(found.detail or found.answer)
            yield SwitchDifference(probe.variant, problem, *answers, "", dtype,
                                   _compare_with_manifest(found))
    for found in probe.found:
        other = plain.get(found.question)
        is_asked = found.question not in SWITCHED_QUESTIONS and found not in compared
        if other is not None and other.answer != found.answer and is_asked:
            yield SwitchDifference(probe.variant, found.asks, other.answer, found.answer,
                                   found.detail, dtype, _compare_with_manifest(found))


def _is_switch(found: Found) -> bool:
    """Whether an answer compares a variant with the subject, and is none of its own answers."""
    return found.question.partition(".")[0] == "switch"


def _split_answers(detail: str) -> tuple[str, str]:
    """Splits a text into the subject's answer and the variant's, if it has both."""
    plain, _, flipped = detail.partition(", and ")
    answer = flipped.removeprefix("in ")
    if answer.startswith("the variant "):
        return (plain, answer.removeprefix("the variant "))
    return (detail, "")


def _compare_with_manifest(found: Found) -> ManifestWord:
    """What the manifest says of an answer. It claims that a variant agrees, unless it declares
    different conventions for the two.
    """
    if found.is_contradiction:
        return ManifestWord.AGAINST
    is_declared = not found.claimed if _is_switch(found) else found.claimed == found.answer
    if is_declared:
        return ManifestWord.DECLARED
    return ManifestWord.OPEN


def _merge_dtypes(flips: Iterable[SwitchDifference]) -> Iterable[SwitchDifference]:
    """Merges differences that are the same at several dtypes."""
    groups: dict[tuple[object, ...], list[SwitchDifference]] = {}
    for flip in flips:
        key = (flip.variant, flip.question_text, flip.plain, flip.flipped_answer,
               flip.manifest_word)
        groups.setdefault(key, []).append(flip)
    for alike in groups.values():
        yield replace(alike[0], dtypes=" ".join(dict.fromkeys(flip.dtypes for flip in alike)))


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table.

    questions: those of a probe whose answers it shows, with all questions below them.  otherwise:
    the question that it shows if these have no answer.  dtype: the one at which it shows the
    answers; None: the first.
    """

    title: str
    question_text: str
    questions: tuple[str, ...]
    otherwise: str = ""
    dtype: DType | None = None


COLUMNS: tuple[Column, ...] = (
    Column("mask", "What does True in a boolean mask mean, as the adapter passes it on?",
           ("mask.polarity",)),
    Column("float mask", "What does a mask of floats mean, and what happens to a bias?",
           ("mask.float", "bias.form")),
    Column("causal, T ≠ S", "Which diagonal bounds the causal mask?", ("causal_alignment",)),
    Column("mask and causal", "What do a mask (a bias of -inf) and the causal flag do together?",
           ("mask_with_causal", "bias_with_causal")),
    Column("hidden row", "What is the output of a query for which every key is masked?",
           ("hidden_row",)),
    Column("hidden NaN", "What does a NaN in a masked key or value do to the output?",
           ("hidden_key.nan", "hidden_value.nan")),
    Column("scale", "What is the default scale, and is an explicit scale used?", ("scale",)),
    Column("grouped heads", "Which key/value head does query head h use if Hkv < H?",
           ("grouped_heads",), "grouped"),
    Column("Dv ≠ D", "May values have another width than keys?", ("value_width",)),
    *(Column(word.name, word.asks, (word.name,)) for word in KEYWORDS.values() if word.asks),
    Column("weights", "Which weights are returned, if any?", ("weights",)),
    Column("float64", "Is float64 computed as float64? The precision class that explains the errors, and the "
           "output's dtype.", ("precision", "dtype.output"), dtype=DType.FLOAT64),
    Column("zero sizes", "What is returned if an axis is empty?", ("zero",)),
    Column("mismatch", "Does it refuse lengths, widths, batches and masks that do not match?",
           ("mismatch",)),
    Column("gradient", "Does a gradient reach masked positions?", ("gradient",)),
)


@dataclass(frozen=True, slots=True)
class ConventionAnswer:
    """An answer of a subject to a question, or to several forms of it.

    forms: such as `mask` and `bias` of `hidden_row`; empty if there is only one.  claimed_answer:
    what the manifest says. other_answers: pairs of dtypes and the answer there.
    """

    forms: tuple[str, ...]
    question_text: str
    answer: str
    detail: str = ""
    claimed_answer: str = ""
    other_answers: tuple[tuple[str, str], ...] = ()
    is_probed: bool = True

    @property
    def is_contradiction(self) -> bool:
        """Whether the manifest says otherwise."""
        return self.is_probed and bool(self.claimed_answer) and self.claimed_answer != self.answer


Answers = Mapping[str, ConventionAnswer]  # by question


@dataclass(frozen=True, slots=True)
class Conventions:
    """A subject's answers: a cell for each column. rest: answers to questions without a column.
    lost_reason: why a probe found nothing.  choices: findings that the library documents.
    """

    subject: JudgedSubject
    cells: tuple[tuple[ConventionAnswer, ...], ...]
    rest: tuple[ConventionAnswer, ...]
    lost_reason: str
    choices: tuple[KnownFinding, ...] = ()

    @property
    def contradictions(self) -> tuple[ConventionAnswer, ...]:
        """The answers that the manifest contradicts."""
        answers = chain(*self.cells, self.rest)
        return tuple(answer for answer in answers if answer.is_contradiction)


def _conventions_of_subject(subject: JudgedSubject,
                            probes: Sequence[SubjectProbed]) -> Conventions:
    plain = [probe for probe in probes if not probe.variant]
    answers = {**_answers_from_card(subject), **_answers_from_probes(plain)}
    by_column = [_select_column_answers(column, answers, plain) for column in COLUMNS]
    shown = {question for selected in by_column for question in selected}
    rest = tuple(replace(answer, forms=())
                 for question, answer in answers.items() if question not in shown)
    lost = ""
    if not any(probe.found for probe in plain):
        lost = next((probe.lost for probe in plain if probe.lost), "")
    choices = tuple(each for each in subject.card.findings if is_choice(each))
    cells = tuple(tuple(_group_alike_answers(selected)) for selected in by_column)
    return Conventions(subject, cells, rest, lost, choices)


def group_answers(joined: JoinedRecords, subject: JudgedSubject,
                  question: str) -> tuple[ConventionAnswer, ...]:
    """Groups a probe's answers to a question and all below it, so that alike answers are one."""
    plain = [probe for probe in joined.probes.get(subject.number, ()) if not probe.variant]
    selected = _select_question(question, _answers_from_probes(plain))
    return tuple(_group_alike_answers(selected))


def _select_column_answers(column: Column, answers: Answers,
                           probes: Sequence[SubjectProbed]) -> Answers:
    if column.dtype is not None:
        answers = _answers_from_probes([probe for probe in probes if probe.dtype is column.dtype])
    selected: dict[str, ConventionAnswer] = {}
    for question in column.questions:
        selected |= _select_question(question, answers)
    if not selected and column.otherwise in answers:
        selected[column.otherwise] = answers[column.otherwise]
    return selected


def _select_question(question: str, answers: Answers) -> Answers:
    """The answers to the forms of a question, or else to the question itself."""
    forms = {name: answer for name, answer in answers.items() if name.startswith(f"{question}.")}
    if not forms and question in answers:
        return {question: answers[question]}
    return forms


def _group_alike_answers(answers: Answers) -> Iterable[ConventionAnswer]:
    """Merges forms with the same answer, and names them if there are several answers."""
    groups: dict[str, list[tuple[str, ConventionAnswer]]] = {}
    for question, each in answers.items():
        groups.setdefault(_answer_sameness(each), []).append((question, each))
    names = _distinguish_forms(answers)
    for alike in groups.values():
        forms = tuple(names[question] for question, _ in alike) if len(groups) > 1 else ()
        details = dict.fromkeys(f"{each.question_text} {each.detail}".strip() for _, each in alike)
        yield replace(alike[0][1], forms=forms, detail="; ".join(details))


def _distinguish_forms(answers: Answers) -> Mapping[str, str]:
    """Names questions by the words that not all of their names have."""
    words = {question: question.replace(".", " ").replace("_", " ").split()
             for question in answers}
    shared = set.intersection(*map(set, words.values())) if words else set()
    return {question: " ".join(word for word in name if word not in shared)
            for question, name in words.items()}


def _answers_from_card(subject: JudgedSubject) -> Answers:
    """The conventions that are declared, and those that the engine found because they are not."""
    card = subject.card
    answers = {}
    for name in (*card.conventions, *card.probed):
        answer = card.probed.get(name) or card.conventions[name]
        asks = CONVENTIONS[name].question if name in CONVENTIONS else ""
        answers[name] = ConventionAnswer((), asks, answer,
                                         claimed_answer=card.conventions.get(name, ""),
                                         is_probed=name in card.probed)
    return answers


def _answers_from_probes(probes: Sequence[SubjectProbed]) -> Answers:
    """The answers at the first dtype, with those that differ at others, by question."""
    by_question: dict[str, dict[str, Found]] = {}
    for probe in probes:
        for found in probe.found:
            by_question.setdefault(found.question, {})[SHORT_NAMES[probe.dtype]] = found
    return {question: _merge_dtype_answers(by_dtype)
            for question, by_dtype in by_question.items()}


def _merge_dtype_answers(by_dtype: Mapping[str, Found]) -> ConventionAnswer:
    first = next(iter(by_dtype.values()))
    others: dict[str, list[str]] = {}
    for dtype, found in by_dtype.items():
        if found.answer != first.answer:
            others.setdefault(found.answer, []).append(dtype)
    other_answers = tuple((" ".join(dtypes), answer) for answer, dtypes in others.items())
    return ConventionAnswer((), first.asks, first.answer, first.detail, first.claimed,
                            other_answers)


@dataclass(frozen=True, slots=True)
class ConventionTable:
    """The conventions of all subjects, and their switches. columns: those with an answer of any
    subject, each with its place in COLUMNS.
    """

    customs: tuple[Conventions, ...]
    columns: tuple[tuple[int, Column], ...]
    switches: tuple[Switches, ...]

    @property
    def title(self) -> tuple[str, str]:
        """The headline of a page that has nothing else, and its colour."""
        whom = count_noun(len(self.customs), "implementation")
        if len(self.customs) == 1:
            whom = self.customs[0].subject.label
        against = sum(len(row.contradictions) for row in self.customs)
        if against:
            return f"{whom} probed: {count_noun(against, 'answer')} against the manifest", "bad"
        return f"{whom} probed: no answer against the manifest", "good"


def find_habits(joined: JoinedRecords) -> ConventionTable:
    """Makes the table of what was declared and probed."""
    rows = tuple(_conventions_of_subject(subject, joined.probes.get(subject.number, ()))
                 for subject in joined.subjects)
    columns = tuple((place, column) for place, column in enumerate(COLUMNS)
                    if any(row.cells[place] for row in rows))
    return ConventionTable(rows, columns, compare_switches(joined))


MOST_NAMED = 4  # subjects that are named if they give the most frequent answer


@dataclass(frozen=True, slots=True)
class AnswerGroup:
    """An answer, what was seen of it, and who gives it."""

    answer: ConventionAnswer
    detail: str = ""
    subject_names: str = ""


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """A question with its answers, the most frequent first."""

    question_text: str
    groups: tuple[AnswerGroup, ...]


@dataclass(frozen=True, slots=True)
class AuditAnswers:
    """What the audit's page says of the answers to a probe's questions. examples: of each answer
    in the table, what was most often seen.  further: questions without a column in the table.
    """

    examples: tuple[AnsweredQuestion, ...]
    further: tuple[AnsweredQuestion, ...]


def collect_answers(habits: ConventionTable) -> AuditAnswers:
    """Collects the answers of all subjects, by question."""
    return AuditAnswers(tuple(_pick_examples(habits)), tuple(_collect_further_questions(habits)))


@dataclass(slots=True)
class _AnswerPile:
    """Collects the answers to one question, by a key that is the same for alike answers."""

    question_text: str
    first: dict[str, ConventionAnswer] = field(default_factory=dict)
    subjects: dict[str, list[str]] = field(default_factory=dict)
    seen_answers: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, key: str, answer: ConventionAnswer, subject: str) -> None:
        """Takes an answer of a subject. key: equal for alike answers."""
        self.first.setdefault(key, answer)
        self.subjects.setdefault(key, []).append(subject)
        self.seen_answers.setdefault(key, Counter())[answer.detail] += 1

    @property
    def by_frequency(self) -> Sequence[str]:
        """The keys, the most frequent first."""
        return sorted(self.first, key=lambda key: -len(self.subjects[key]))


def _pick_examples(habits: ConventionTable) -> Iterable[AnsweredQuestion]:
    """Picks what was most often seen of each answer, by column."""
    for place, column in habits.columns:
        pile = _AnswerPile(column.question_text)
        for row in habits.customs:
            for answer in row.cells[place]:
                if answer.is_probed:
                    plain = replace(answer, forms=(), other_answers=(), claimed_answer="")
                    pile.add(answer.answer, plain, row.subject.label)
        groups = tuple(AnswerGroup(pile.first[key], pile.seen_answers[key].most_common(1)[0][0])
                       for key in pile.by_frequency)
        if any(group.detail for group in groups):
            yield AnsweredQuestion(pile.question_text, groups)


def _collect_further_questions(habits: ConventionTable) -> Iterable[AnsweredQuestion]:
    """Yields the questions for which the table has no column, with who answers what."""
    questions: dict[str, _AnswerPile] = {}
    for row in habits.customs:
        for answer in row.rest:
            pile = questions.setdefault(answer.question_text, _AnswerPile(answer.question_text))
            pile.add(_answer_sameness(answer), answer, row.subject.label)
    for pile in questions.values():
        yield AnsweredQuestion(pile.question_text, tuple(_group_by_answer(pile)))


def _group_by_answer(pile: _AnswerPile) -> Iterable[AnswerGroup]:
    """Yields the answers with who gives them; many who give the most frequent one are counted."""
    others = "others that were asked" if len(pile.first) > 1 else "that were asked"
    for place, key in enumerate(pile.by_frequency):
        names = ", ".join(pile.subjects[key])
        number = len(pile.subjects[key])
        if place == 0 and number > MOST_NAMED:
            names = f"all {number} {others}"
        yield AnswerGroup(pile.first[key], "", names)


def _answer_sameness(answer: ConventionAnswer) -> str:
    """A key that is equal for alike answers."""
    return repr((answer.answer, answer.other_answers, answer.is_probed,
                 answer.is_contradiction and answer.claimed_answer))
