"""What each implementation does where practice is divided, and what hidden switches change.

The answers stand side by side, an implementation a row, and once more by question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from attnspec.core.conventions import CONVENTIONS
from attnspec.core.keywords import KEYWORDS
from attnspec.core.nouns import DType
from attnspec.core.texts import count_noun
from attnspec.record.events import Found, SubjectProbed
from attnspec.record.outcome import KnownFinding, is_choice
from attnspec.report.figures import SHORT_NAMES
from attnspec.report.joined import JoinedRecords, JudgedSubject

SAME_ANSWER = "agree"  # the answer of a switch that makes no difference
SWITCHED_QUESTIONS = ("gradient.flow",)  # what a switch is there to change is no surprise


class ManifestWord(Enum):
    """What the manifest says of a disagreement."""

    DECLARED = "declared"
    AGAINST = "the manifest says otherwise"
    OPEN = ""


@dataclass(frozen=True, slots=True)
class SwitchDifference:
    """One question to which a variant answers otherwise, or a problem that was put to both; both answers."""

    variant: str
    question_text: str
    plain: str
    flipped_answer: str
    detail: str
    dtypes: str
    manifest_word: ManifestWord


@dataclass(frozen=True, slots=True)
class Switches:
    """A subject, the variants that were tried, and every disagreement.  lost_variants: variants that told nothing, and
    why.
    """

    subject: JudgedSubject
    variants: tuple[str, ...]
    flips: tuple[SwitchDifference, ...]
    lost_variants: tuple[tuple[str, str], ...]

    @property
    def quiet(self) -> tuple[str, ...]:
        """The variants that always answer as the subject itself does."""
        differing = {flip.variant for flip in self.flips} | {variant
                                                             for variant, _ in self.lost_variants}
        return tuple(variant for variant in self.variants if variant not in differing)


def compare_switches(joined: JoinedRecords) -> tuple[Switches, ...]:
    """A panel for every subject with variants that were probed; those with disagreements first."""
    found = [_switches_of_subject(subject, joined.probes.get(subject.number, ()))
             for subject in joined.subjects]
    return tuple(sorted((each for each in found if each.variants),
                        key=lambda each: not each.flips))


def _switches_of_subject(subject: JudgedSubject, probes: Sequence[SubjectProbed]) -> Switches:
    flipped = [probe for probe in probes if probe.variant]
    plain = {probe.dtype: _group_by_question(probe) for probe in probes if not probe.variant}
    told = [flip for probe in flipped
            for flip in _switch_differences(probe, plain.get(probe.dtype, {}))]
    lost = {probe.variant: probe.lost for probe in flipped if probe.lost}
    variants = tuple(dict.fromkeys(probe.variant for probe in flipped))
    flips = sorted(_merge_dtypes(told), key=lambda flip: variants.index(flip.variant))
    return Switches(subject, variants, tuple(flips), tuple(lost.items()))


def _group_by_question(probe: SubjectProbed) -> Mapping[str, Found]:
    return {found.question: found for found in probe.found}


def _switch_differences(probe: SubjectProbed,
                        plain: Mapping[str, Found]) -> Iterable[SwitchDifference]:
    """Finds where a variant answers otherwise than the subject: first problems put to both, then questions."""
    dtype, flipped = SHORT_NAMES[probe.dtype], [found
                                                for found in probe.found if _is_switch(found)]
    for found in flipped:
        if found.answer != SAME_ANSWER:
            posed = (found.asks.partition(": ")[2] or found.asks).rstrip("?")
            answers = _split_answers(found.detail or found.answer)
            yield SwitchDifference(probe.variant, posed, *answers, "", dtype,
                                   _compare_with_manifest(found))
    for found in probe.found:
        other = plain.get(found.question)
        is_asked = found.question not in SWITCHED_QUESTIONS and found not in flipped
        if other is not None and other.answer != found.answer and is_asked:
            yield SwitchDifference(probe.variant, found.asks, other.answer, found.answer,
                                   found.detail, dtype,
                                   _compare_with_manifest(found))


def _is_switch(found: Found) -> bool:
    """Whether this is about the two side by side, not about what the variant does by itself."""
    return found.question.partition(".")[0] == "switch"


def _split_answers(detail: str) -> tuple[str, str]:
    """The two answers; where they are not told one after the other, all in the first."""
    plain, _, flipped = detail.partition(", and ")
    told = flipped.removeprefix("in ")
    if told.startswith("the variant "):
        return (plain, told.removeprefix("the variant "))
    return (detail, "")


def _compare_with_manifest(found: Found) -> ManifestWord:
    """That a variant agrees is claimed of every switch but those of which the two declare different conventions."""
    is_declared = not found.claimed if _is_switch(found) else found.claimed == found.answer
    if found.is_contradiction:
        return ManifestWord.AGAINST
    if is_declared:
        return ManifestWord.DECLARED
    return ManifestWord.OPEN


def _merge_dtypes(flips: Iterable[SwitchDifference]) -> Iterable[SwitchDifference]:
    """The same disagreement at several dtypes is told once."""
    groups: dict[tuple[object, ...], list[SwitchDifference]] = {}
    for flip in flips:
        groups.setdefault((flip.variant, flip.question_text, flip.plain, flip.flipped_answer,
                           flip.manifest_word),
                          []).append(flip)
    for alike in groups.values():
        yield replace(alike[0], dtypes=" ".join(dict.fromkeys(flip.dtypes for flip in alike)))


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table: its heading, what it asks, and the questions of a probe (with all below them) it shows.

    otherwise: the question shown where none of these has an answer.  dtype: the one it is about; None: the first.
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
    Column("float64", "Is float64 computed as float64? The precision class that explains the "
                      "errors, and the output's "
           "dtype.",
           ("precision", "dtype.output"), dtype=DType.FLOAT64),
    Column("zero sizes", "What is returned if an axis is empty?", ("zero",)),
    Column("mismatch", "Does it refuse lengths, widths, batches and masks that do not match?",
           ("mismatch",)),
    Column("gradient", "Does a gradient reach masked positions?", ("gradient",)),
)


@dataclass(frozen=True, slots=True)
class ConventionAnswer:
    """One answer of a subject to one or several forms of a question, as in `mask` and `bias` of `hidden_row`.

    question_text: the question.  claimed_answer: what the manifest says.  other_answers: pairs of dtypes and what is
    answered there.
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
    """A subject's answers: one cell a column, and whatever else it was asked. `lost`: why nothing was found out.

    choices: what its library documents that it does otherwise than a clause asks.
    """

    subject: JudgedSubject
    cells: tuple[tuple[ConventionAnswer, ...], ...]
    rest: tuple[ConventionAnswer, ...]
    lost_reason: str
    choices: tuple[KnownFinding, ...] = ()

    @property
    def contradictions(self) -> tuple[ConventionAnswer, ...]:
        """The answers against which the manifest speaks."""
        return tuple(answer
                     for answer in (*sum(self.cells, ()), *self.rest) if answer.is_contradiction)


def describe_conventions(joined: JoinedRecords) -> tuple[Conventions, ...]:
    """Describes the conventions of all subjects, a row each."""
    return tuple(_conventions_of_subject(subject, joined.probes.get(subject.number, ()))
                 for subject in joined.subjects)


def choose_columns(rows: Sequence[Conventions]) -> tuple[tuple[int, Column], ...]:
    """The columns that hold an answer of anybody, with their places."""
    return tuple((place, column)
                 for place, column in enumerate(COLUMNS) if any(row.cells[place] for row in rows))


def _conventions_of_subject(subject: JudgedSubject,
                            probes: Sequence[SubjectProbed]) -> Conventions:
    plain = [probe for probe in probes if not probe.variant]
    answers = {**_answers_from_card(subject), **_answers_from_probes(plain)}
    asked = [_select_column_answers(column, answers, plain) for column in COLUMNS]
    shown = {question for found in asked for question in found}
    rest = tuple(replace(answer, forms=())
                 for question, answer in answers.items() if question not in shown)
    lost = ("" if any(probe.found for probe in plain)
            else next((probe.lost for probe in plain if probe.lost), ""))
    choices = tuple(each for each in subject.card.findings if is_choice(each))
    return Conventions(subject, tuple(tuple(_group_alike_answers(found)) for found in asked), rest,
                       lost, choices)


def group_answers(joined: JoinedRecords, subject: JudgedSubject,
                  question: str) -> tuple[ConventionAnswer, ...]:
    """Groups what a probe found of a question and all below it: alike answers stand together."""
    plain = [probe for probe in joined.probes.get(subject.number, ()) if not probe.variant]
    return tuple(_group_alike_answers(_select_column_answers(Column("", "", (question,)),
                                                             _answers_from_probes(plain),
                                                             plain)))


def _select_column_answers(column: Column, answers: Answers,
                           probes: Sequence[SubjectProbed]) -> Answers:
    """The answers of a column; where forms of a question have their own, the one for all of them is not repeated."""
    if column.dtype is not None:
        answers = _answers_from_probes([probe for probe in probes if probe.dtype is column.dtype])
    found: dict[str, ConventionAnswer] = {}
    for question in column.questions:
        below = {name: answer
                 for name, answer in answers.items() if name.startswith(f"{question}.")}
        found |= below or ({question: answers[question]} if question in answers else {})
    other = column.otherwise
    return found or ({other: answers[other]} if other in answers else {})


def _group_alike_answers(answers: Answers) -> Iterable[ConventionAnswer]:
    """Forms with the same answer stand together; where there is one answer alone, forms go without saying."""
    groups: dict[tuple[object, ...], list[tuple[str, ConventionAnswer]]] = {}
    for question, each in answers.items():
        key = (each.answer, each.is_contradiction and each.claimed_answer, each.other_answers,
               each.is_probed)
        groups.setdefault(key, []).append((question, each))
    names = _distinguish_forms(answers)
    for alike in groups.values():
        forms = tuple(names[question] for question, _ in alike) if len(groups) > 1 else ()
        yield replace(alike[0][1], forms=forms, detail="; ".join(dict.fromkeys(
            f"{each.question_text} {each.detail}".strip() for _, each in alike)))


def _distinguish_forms(answers: Answers) -> Mapping[str, str]:
    """Names the questions of a column by the words that not all of their names have."""
    names = {question: question.replace(".", " ").replace("_", " ").split()
             for question in answers}
    shared = set.intersection(*map(set, names.values())) if names else set()
    return {question: " ".join(word for word in name if word not in shared)
            for question, name in names.items()}


def _answers_from_card(subject: JudgedSubject) -> Answers:
    """What is declared of the conventions, and what the engine found of those that are not."""
    card = subject.card
    found = {}
    for name in (*card.conventions, *card.probed):
        answer = card.probed.get(name) or card.conventions[name]
        asks = CONVENTIONS[name].question if name in CONVENTIONS else ""
        found[name] = ConventionAnswer((), asks, answer,
                                       claimed_answer=card.conventions.get(name, ""),
                                       is_probed=name in card.probed)
    return found


def _answers_from_probes(probes: Sequence[SubjectProbed]) -> Answers:
    """Finds by question what was answered at the first dtype, and where the answer differs."""
    asked: dict[str, dict[str, Found]] = {}
    for probe in probes:
        for found in probe.found:
            asked.setdefault(found.question, {})[SHORT_NAMES[probe.dtype]] = found
    return {question: _merge_dtype_answers(by_dtype) for question, by_dtype in asked.items()}


def _merge_dtype_answers(by_dtype: Mapping[str, Found]) -> ConventionAnswer:
    first = next(iter(by_dtype.values()))
    others: dict[str, list[str]] = {}
    for dtype, found in by_dtype.items():
        if found.answer != first.answer:
            others.setdefault(found.answer, []).append(dtype)
    return ConventionAnswer((), first.asks, first.answer, first.detail, first.claimed,
                  tuple((" ".join(dtypes), answer) for answer, dtypes in others.items()))


@dataclass(frozen=True, slots=True)
class ConventionTable:
    """Conventions, the columns that hold any (with their places), and switches."""

    customs: tuple[Conventions, ...]
    columns: tuple[tuple[int, Column], ...]
    switches: tuple[Switches, ...]

    @property
    def title(self) -> tuple[str, str]:
        """The sentence over a page that holds nothing else, and its colour."""
        whom = self.customs[0].subject.label if len(self.customs) == 1 else count_noun(len(self.customs),
                                                                                       "implementation")
        against = sum(len(row.contradictions) for row in self.customs)
        if against:
            return f"{whom} probed: {count_noun(against, 'answer')} against the manifest", "bad"
        return f"{whom} probed: no answer against the manifest", "good"


def find_habits(joined: JoinedRecords) -> ConventionTable:
    """Look at what was declared and probed."""
    rows = describe_conventions(joined)
    return ConventionTable(rows, choose_columns(rows), compare_switches(joined))


MOST_NAMED = 4  # how many subjects with the most frequent answer are named

@dataclass(frozen=True, slots=True)
class AnswerGroup:
    """An answer, what was seen of it, and who gives it, where that matters."""

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
    """What the audit's page tells of the answers to a probe's questions.

    examples: of each answer in the table, what was most often seen of it.  further: what the table does not tell.
    """

    examples: tuple[AnsweredQuestion, ...]
    further: tuple[AnsweredQuestion, ...]


def collect_answers(habits: ConventionTable) -> AuditAnswers:
    """Collects the answers of all subjects, by question."""
    return AuditAnswers(tuple(_pick_examples(habits)), tuple(_collect_further_questions(habits)))


@dataclass(slots=True)
class _AnswerPile:
    """The answers to one question, as they are gathered: by what is said, who says it, and what was seen."""

    question_text: str
    first: dict[str, ConventionAnswer] = field(default_factory=dict)
    subjects: dict[str, list[str]] = field(default_factory=dict)
    seen_answers: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, key: str, answer: ConventionAnswer, subject: str) -> None:
        """Take an answer of a subject; `key` is what makes two answers the same."""
        self.first.setdefault(key, answer)
        self.subjects.setdefault(key, []).append(subject)
        self.seen_answers.setdefault(key, Counter())[answer.detail] += 1

    @property
    def by_frequency(self) -> Sequence[str]:
        """The keys, the most frequent first."""
        return sorted(self.first, key=lambda key: -len(self.subjects[key]))


def _pick_examples(habits: ConventionTable) -> Iterable[AnsweredQuestion]:
    """Picks a question of each column, in the order of the table."""
    for place, column in habits.columns:
        found = _AnswerPile(column.question_text)
        for row in habits.customs:
            for answer in row.cells[place]:
                if answer.is_probed:
                    found.add(answer.answer,
                              replace(answer, forms=(), other_answers=(), claimed_answer=""),
                              row.subject.label)
        groups = tuple(AnswerGroup(found.first[key], found.seen_answers[key].most_common(1)[0][0])
                       for key in found.by_frequency)
        if any(group.detail for group in groups):
            yield AnsweredQuestion(found.question_text, groups)


def _collect_further_questions(habits: ConventionTable) -> Iterable[AnsweredQuestion]:
    """Each question that the table has no column for, with who answers what."""
    questions: dict[str, _AnswerPile] = {}
    for row in habits.customs:
        for answer in row.rest:
            found = questions.setdefault(answer.question_text, _AnswerPile(answer.question_text))
            found.add(_answer_sameness(answer), answer, row.subject.label)
    for found in questions.values():
        yield AnsweredQuestion(found.question_text, tuple(_group_by_answer(found)))


def _group_by_answer(found: _AnswerPile) -> Iterable[AnswerGroup]:
    """The answers with who gives them. Of the most frequent one only a few are named; those who differ are, all."""
    for place, key in enumerate(found.by_frequency):
        names = found.subjects[key]
        are_named = place > 0 or len(names) <= MOST_NAMED
        others = "others that were asked" if len(found.first) > 1 else "that were asked"
        yield AnswerGroup(found.first[key], "",
                          ", ".join(names) if are_named else f"all {len(names)} {others}")


def _answer_sameness(answer: ConventionAnswer) -> str:
    """A key that is equal for answers that are told as one."""
    return repr((answer.answer, answer.other_answers, answer.is_probed,
                 answer.is_contradiction and answer.claimed_answer))
