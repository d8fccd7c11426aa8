"""Says what to do where the likeliest reason of a failure has a known remedy: a declaration, an
adapter, a line.

Where a function raises, it names the line, and the fewest sizes and keywords that do it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from attnspec.core.conventions import CONVENTIONS, UNDEFINED, unlike_any
from attnspec.core.declaration import Limits, limits_saying, narrowed_by
from attnspec.core.keyword import Acts
from attnspec.core.keywords import KEYWORDS, load_parts
from attnspec.core.nouns import DType, Kind, is_bare
from attnspec.core.sizes import Refusal
from attnspec.diagnosis.diagnose import Diagnosis
from attnspec.diagnosis.inputs import features_that_matter
from attnspec.diagnosis.locate import MASK_IS_INVERTED, NOTHING_SHOWS, SPOILT_BEGINNING, WITHOUT_MAXIMUM
from attnspec.host.lifts import LIFTS
from attnspec.problems.problem import Recipe
from attnspec.record.outcome import Explanation
from attnspec.spec.load import added_files
from attnspec.spec.yaml_lines import shown_path
from attnspec.subjects.call import UnusableAnswer
from attnspec.subjects.exceptions import refusal_words
from attnspec.subjects.interview import PLAIN, Case, Interview, WordedRefusal, case_of, find_causes
from attnspec.subjects.refusals import begin_interview
from attnspec.subjects.subject import Subject, SubjectDied, SubjectRaised
from attnspec.subjects.target import importable_name
from attnspec.trials.trial import Trial
from attnspec.vocabulary.observables import find_beyond, look_at

_ASKS_FOR_TENSORS = re.compile(r"(must be|expected) Tensor\b.*\bnumpy\.ndarray")
"""The words of PyTorch's functions, also in modules that import nothing else of PyTorch."""


def explain_missing_lift(subject: Subject, exception_text: str) -> Explanation | None:
    """The advice to hand over tensors, for a function of one's own that raises on arrays.

    Its module imports a framework, or the exception asks for the tensors of one.
    """
    lift, why = wanted_lift(subject, exception_text)
    if not lift:
        return None
    return Explanation(f"it gets NumPy arrays, and {why} (--lift {lift} gives it tensors)",
                       f"Give it tensors, with --lift {lift}",
                       f'{subject.id.rpartition(":")[2]}.lift = "{lift}"')


def wanted_lift(subject: Subject, exception_text: str) -> tuple[str, str]:
    """The framework whose tensors the function takes, and how that is known; or twice ""."""
    if not is_bare(subject.id) or subject.declaration.lift:
        return "", ""
    # the import says it before a word of the exception does
    for lift in LIFTS:
        if lift in used_frameworks(subject):
            return lift, f"its module imports {lift}"
    # PyTorch's functions name the class that they want
    if _ASKS_FOR_TENSORS.search(exception_text):
        return "torch", "takes tensors of torch"
    return "", ""


def used_frameworks(subject: Subject) -> frozenset[str]:
    """The packages that the function's module imports, and the framework of its lift."""
    used = subject.description.uses if subject.description else ()
    return frozenset({subject.declaration.lift, *used} - {""})


ALWAYS_CAUSAL, INVERTED_MASK = "causal_always", "mask_inverted"
_FINITE_MASK_PREFIXES = ("mask_constant_", "mask_adds_")
"""How the names of the faults begin that hide a key by a finite number."""


def find_way_out(trial: Trial, recipe: Recipe, diagnosis: Diagnosis,
                 holding: Sequence[Recipe] = ()) -> Explanation | None:
    """What to do about a diagnosis, for the mistakes that students and library users make most.

    holding: cases that hold. A convention that matters to one of them is not what is wrong.
    """
    subject = trial.evaluator.subject
    likeliest = diagnosis.likely_faults[0].fault if diagnosis.likely_faults else ""
    # mistakes that have one way out each come before what has to be guessed
    if likeliest == ALWAYS_CAUSAL:
        return _explain_causal_by_design(subject)
    if likeliest == WITHOUT_MAXIMUM:
        return Explanation("exp overflows: the maximum of the logits is not subtracted before it "
                           f"(`{likeliest}`)",
                           "Subtract it from each row: exp(logits - logits.max(axis=-1, "
                           "keepdims=True))", "")
    if likeliest.startswith(_FINITE_MASK_PREFIXES):
        return Explanation("masked logits get a finite number, and visible ones may lie lower "
                           f"(`{likeliest}`)",
                           "Use -inf: it is lower than any logit. Rows whose visible logits are "
                           "all higher than the number are right as they are", "")
    if likeliest == INVERTED_MASK or diagnosis.located_stage == MASK_IS_INVERTED:
        return _explain_inverted_mask(subject)
    if not diagnosis.located_stage.startswith((NOTHING_SHOWS, SPOILT_BEGINNING)):
        return None
    # a convention that a passing case hangs on is followed after all
    sound = {name for case in holding for name in features_that_matter(case)}
    doubtful = [name for name in features_that_matter(recipe) if name not in sound]
    return explain_undefined(subject, doubtful, trial.evaluator.conventions)


def explain_wrong_clause(trial: Trial, recipe: Recipe, added: Sequence[str]) -> Explanation | None:
    """The advice to mend a clause of the user's own files, if all answers in the case are right.

    None for any other clause.
    """
    clause = trial.check.clause
    # clauses that come with attnspec are held to every sound formulation: a user's own may be
    # wrong
    if clause.where.file not in map(shown_path, added_files(added)):
        return None
    scene = trial.scene(recipe)
    quantities = {str(word.args["observe"]) for word in clause.then if "observe" in word.args}
    if not quantities or not scene.runs:
        return None
    for quantity in quantities:
        for run in scene.runs:
            view = look_at(scene, run, quantity)
            # a wrong answer, or one about which nothing is claimed, may be the function's fault
            if (find_beyond(view.array, view.truth, view.allowance) | ~view.claimed).any():
                return None
    return Explanation("the clause is wrong: each answer in this case is right by the definition",
                       f"Mend it ({clause.where}), or say under `given` where it holds", "")


def explain_undefined(subject: Subject, names: Sequence[str],
                      answers: Mapping[str, str]) -> Explanation | None:
    """What to do about the first of these conventions that has no known answer and is not
    declared.

    answers: what the probes found.
    """
    for name in names:
        if answers.get(name) == UNDEFINED and name not in subject.declaration.conventions:
            advice = f"Make it one of these; {CONVENTIONS[name].recommended} is recommended"
            return Explanation(unlike_any(name), advice, "")
    return None


def _explain_inverted_mask(subject: Subject) -> Explanation | None:
    """For a function of one's own: to turn the mask round, or to have an adapter do so."""
    if not is_bare(subject.id):
        return None
    advice = ("Invert it. If your library documents that True hides a key, keep it: "
              f"`attnspec init {importable_name(subject.id)}` writes an adapter that turns the mask")
    return Explanation(MASK_IS_INVERTED, advice, "")


def _explain_causal_by_design(subject: Subject) -> Explanation | None:
    """For a function of one's own without a causal flag: it may be causal on purpose."""
    # a registered subject says in its manifest that it is always causal
    if not is_bare(subject.id) or "causal" in subject.declaration.keywords:
        return None
    name = subject.id.rpartition(":")[2]
    wrapper = "wrapped" if name == "attend" else "attend"
    return Explanation(f"it is causal, and has no causal flag (`{ALWAYS_CAUSAL}`)",
                       "Let it take `causal`. If every call is meant to be causal, wrap it: "
                       f"def {wrapper}(query, key, value, *, causal=True): return {name}(query, "
                       f"key, value), and declare it: {wrapper}.causal_only = True", "")


def manifest_line(subject: Subject, key: str, entries: Mapping[str, object]) -> str:
    """`under 'precision' of mine/attend (FILE:LINE) write: float16: {…}`, and in place of what."""
    place = f" ({subject.entry})" if subject.entry else ""
    precisions = {"precision": subject.declaration.precision,
                  "backward_precision": subject.declaration.backward_precision}.get(key, {})
    # a dtype stands once under a key, so that the new line replaces what is there
    present = [dtype.value for dtype in precisions if dtype.value in entries]
    instead = f", in place of its {' and '.join(present)}," if present else ""
    lines = ", ".join(f"{name}: {_format_yaml(value)}" for name, value in entries.items())
    return f"under {key!r} of {subject.id}{place}{instead} write: {lines}"


def _format_yaml(value: object) -> str:
    """The value as one writes it in YAML on one line; texts are quoted as in JSON."""
    if isinstance(value, Mapping):
        entries = [f"{key}: {_format_yaml(inner)}" for key, inner in value.items()]
        return f"{{{', '.join(entries)}}}"
    return json.dumps(value, ensure_ascii=False)


_CONDITION_WORDS = {"G > 1": "Hkv < H"}
"""Conditions that people write otherwise."""


@dataclass(slots=True)
class RaisingExplainer:
    """Explains the exceptions of one function of a user's own, once for each line that raises."""

    subject: Subject
    _known_explanations: dict[tuple[DType, str], Explanation | None] = field(default_factory=dict)
    # by origin or cause, what always comes
    _everywhere: dict[str, Explanation] = field(default_factory=dict)

    def explain(self, error: SubjectRaised, dtype: DType) -> Explanation | None:
        """The cause `it raises IndexError in mine.py:41 where Hkv < H`, with the remedy.

        None where no conditions are found: the exception depends on entries, or on chance.
        """
        # what a registered subject refuses stands in its manifest
        if (not is_bare(self.subject.id) or self.subject.declaration.kind is Kind.LAYER
            or error.asked is None):
            return None
        if refusal_words(error, error.asked, home=self.subject.home):
            return None  # it is a promise that is broken; its own words are the best
        if error.origin in self._everywhere:
            return self._everywhere[error.origin]
        # one line of code raises for one reason, so that it is asked about once
        key = (dtype, error.origin)
        if key not in self._known_explanations:
            try:
                case = case_of(error.asked)
                self._known_explanations[key] = self._find_conditions(error, dtype, case)
            # a process that dies of the search tells nothing, and would die again
            except SubjectDied:
                self._known_explanations[key] = None
        return self._known_explanations[key]

    def explain_return(self, no_array: str) -> Explanation | None:
        """The cause `every call returns a tuple of 2, and no array`.

        None where a plain problem is answered.  no_array: what came back in place of the output
        (`UnusableAnswer.no_array`).
        """
        if self.subject.declaration.kind is not Kind.ATTENTION:
            return None
        cause = f"every call returns {no_array}, and no array"
        if cause not in self._everywhere:
            if any(map(self._returns_output, self.subject.declaration.dtypes)):
                return None
            self._everywhere[cause] = Explanation(cause, "Return the output alone", "")
        return self._everywhere[cause]

    def _returns_output(self, dtype: DType) -> bool:
        try:
            self.subject.answer(Case(PLAIN).make_problem(dtype))
        except (SubjectRaised, SubjectDied, UnusableAnswer):
            return False
        return True

    def _find_conditions(self, error: SubjectRaised, dtype: DType,
                         end: Case) -> Explanation | None:
        # a plain problem that is answered: from there to the failing one, change by change
        first_interview = begin_interview(self.subject, dtype)
        if first_interview is None:
            return self._explain_constant_raising(error, dtype)
        interview = Interview(self.subject, dtype, origin=error.origin)
        if interview.refusal(first_interview.start):
            return None
        causes = find_causes(interview, first_interview.start, end)
        return self._explain_place(error, causes) if causes else None

    def _explain_constant_raising(self, error: SubjectRaised, dtype: DType) -> Explanation:
        """Where no plain problem is answered at this dtype; at others it may be."""
        # a line that raises at one dtype alone is a matter of that dtype
        others = [each for each in self.subject.declaration.dtypes
                  if each is not dtype and Interview(self.subject, each).takes_case(Case(PLAIN))]
        if not others:
            self._everywhere[error.origin] = Explanation(
                f"every call raises {error.origin}", f"Mend it{_declaration_words(self.subject)}",
                "")
            return self._everywhere[error.origin]
        function = self.subject.id.rpartition(":")[2]
        return Explanation(
            f"it raises {error.origin} at {dtype.value}",
            f"Mend it. If {dtype.value} is not meant to be taken",
            f"{function}.dtypes = {[each.value for each in others]}")

    def _explain_place(self, error: SubjectRaised, causes: Sequence[WordedRefusal]) -> Explanation:
        refusals = [each.refusal for each in causes]
        conditions = " or ".join(dict.fromkeys(map(_format_refusal, refusals)))
        keywords = {name for refusal in refusals for name in refusal.keywords} & KEYWORDS.keys()
        # what is handed over may be what was declared wrongly, so that both are named
        declaration_words = ""
        if any(KEYWORDS[name].acts is Acts.ENTRIES for name in keywords):
            declaration_words = _declaration_words(self.subject)
        return Explanation(
            f"it raises {error.origin} where {conditions}",
            f"Mend it{declaration_words}. "
            "If it is not meant to be called so, let it raise an exception that says so",
            _declare_refusals(self.subject, refusals))


def _declaration_words(subject: Subject) -> str:
    """That the arrays which are declared to be handed over may be wrong; or empty."""
    arrays = [each for part in load_parts("limits")
              for each in part.describe_handed(subject.declaration.limits)]
    return f", or what is declared: it is handed {', '.join(arrays)}" if arrays else ""


def _format_refusal(refusal: Refusal) -> str:
    """`a mask is given and B > 1`, `Hkv < H`, `1 < Hkv < H`."""
    keywords = [f"{name} is given" for name in sorted(refusal.keywords)]
    conditions = [_CONDITION_WORDS.get(text, text) for text in map(str, refusal.conditions)]
    return " and ".join((*keywords, *conditions)).replace("Hkv > 1 and Hkv < H", "1 < Hkv < H")


def _declare_refusals(subject: Subject, refusals: Sequence[Refusal]) -> str:
    """The line that declares these refusals as an attribute of the function."""
    function = subject.id.rpartition(":")[2]
    names = sorted(limits_saying({str(each) for each in refusals}))
    if len(names) == len(refusals) == 1:
        # a limit that has a name of its own is read more easily than a condition
        value = getattr(narrowed_by(Limits(), refusals), names[0])
        return f"{function}.{names[0]} = {value!r}"
    texts = map(str, (*subject.declaration.limits.refuses, *refusals))
    return f"{function}.refuses = {[text.replace('≠', '!=') for text in texts]!r}"
