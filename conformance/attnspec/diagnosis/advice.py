"""What a finding says first where the likeliest reason has a known way out: a declaration, an
adapter, a line.

Where a function raises, that is the line, and the fewest sizes and keywords that bring the
exception out.
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
"""As PyTorch's own functions say it, also where a module imports no more than such a function."""


def explain_missing_lift(subject: Subject, said: str) -> Explanation | None:
    """What to say where a function of one's own raises on arrays, and its module imports a
    framework, or the exception asks for the tensors of one.  said: the exception.
    """
    lift, why = wanted_lift(subject, said)
    if not lift:
        return None
    return Explanation(f"it gets NumPy arrays, and {why} (--lift {lift} gives it tensors)",
                       f"Give it tensors, with --lift {lift}",
                       f'{subject.id.rpartition(":")[2]}.lift = "{lift}"')


def wanted_lift(subject: Subject, said: str) -> tuple[str, str]:
    """The framework whose tensors such a function takes, and how that is known; both empty where
    that is not.
    """
    if not is_bare(subject.id) or subject.declaration.lift:
        return "", ""
    # the import says it before a word of the exception does
    used = used_frameworks(subject)
    if lift := next((lift for lift in LIFTS if lift in used), ""):
        return lift, f"its module imports {lift}"
    # PyTorch's functions name the class that they want
    return ("torch", "takes tensors of torch") if _ASKS_FOR_TENSORS.search(said) else ("", "")


def used_frameworks(subject: Subject) -> frozenset[str]:
    """The packages that the module of the subject's function imports by name, and the framework it
    is handed.
    """
    used = subject.description.uses if subject.description else ()
    return frozenset({subject.declaration.lift, *used} - {""})


ALWAYS_CAUSAL, INVERTED_MASK = "causal_always", "mask_inverted"
_FINITE_MASK_PREFIXES = ("mask_constant_", "mask_adds_")
"""How faults begin that hide a key by a finite number."""


def find_way_out(trial: Trial, recipe: Recipe, diagnosis: Diagnosis,
                 held: Sequence[Recipe] = ()) -> Explanation | None:
    """What to do about the diagnosis of a case, for the mistakes that students and users of
    libraries make most.

    held: cases that hold beside it. A convention on which one of them hangs is not what is wrong.
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
    followed = {name for case in held for name in features_that_matter(case)}
    doubtful = [name for name in features_that_matter(recipe) if name not in followed]
    return explain_undefined(subject, doubtful, trial.evaluator.conventions)


def explain_wrong_clause(trial: Trial, recipe: Recipe, added: Sequence[str]) -> Explanation | None:
    """What to do about a clause of the user's own files that a case violates, within rounding,
    though each answer of it is right; None of another clause.
    """
    clause = trial.check.clause
    # clauses that come with attnspec are held to every sound formulation: a user's own may be
    # wrong
    if clause.where.file not in map(shown_path, added_files(added)):
        return None
    scene = trial.scene(recipe)
    asked = {str(word.args["observe"]) for word in clause.then if "observe" in word.args}
    seen = [look_at(scene, run, each) for each in asked for run in scene.runs]
    # a wrong answer anywhere, or one of which nothing is claimed, speaks for the function's guilt
    if (not seen
        or any((find_beyond(each.array, each.truth, each.allowance) | ~each.claimed).any()
               for each in seen)):
        return None
    return Explanation("the clause is wrong: each answer in this case is right by the definition",
                       f"Mend it ({clause.where}), or say under `given` where it holds", "")


def explain_undefined(subject: Subject, names: Sequence[str],
                      found: Mapping[str, str]) -> Explanation | None:
    """What to do about a convention of these, of which the probes found no known answer and none
    is declared.
    """
    name = next((name for name in names if found.get(name) == UNDEFINED
                 and name not in subject.declaration.conventions), "")
    if not name:
        return None
    return Explanation(unlike_any(name),
                       f"Make it one of these; {CONVENTIONS[name].recommended} is recommended", "")


def _explain_inverted_mask(subject: Subject) -> Explanation | None:
    """Of a function of one's own: to turn it round, or to have an adapter do so."""
    if not is_bare(subject.id):
        return None
    advice = ("Invert it. If your library documents that True hides a key, keep it: "
              f"`attnspec init {importable_name(subject.id)}` writes an adapter that turns the mask")
    return Explanation(MASK_IS_INVERTED, advice, "")


def _explain_causal_by_design(subject: Subject) -> Explanation | None:
    """Of a function of one's own that has no causal flag: it may be meant so."""
    # a registered subject says in its manifest that it is always causal
    if not is_bare(subject.id) or "causal" in subject.declaration.keywords:
        return None
    name, wrapper = _wrapper_names(subject)
    return Explanation(f"it is causal, and has no causal flag (`{ALWAYS_CAUSAL}`)",
                       "Let it take `causal`. If every call is meant to be causal, wrap it: "
                       f"def {wrapper}(query, key, value, *, causal=True): return {name}(query, "
                       "key, value), and "
                       f"declare it: {wrapper}.causal_only = True", "")


def _wrapper_names(subject: Subject) -> tuple[str, str]:
    """The name of a function, and that of one to wrap it in."""
    name = subject.id.rpartition(":")[2]
    return name, "wrapped" if name == "attend" else "attend"


def manifest_line(subject: Subject, key: str, entries: Mapping[str, object]) -> str:
    """`under 'precision' of mine/attend (FILE:LINE) write: float16: {…}`, and what of it is there
    already.
    """
    place = f" ({subject.entry})" if subject.entry else ""
    declared = {"precision": subject.declaration.precision,
                "backward_precision": subject.declaration.backward_precision}.get(key, {})
    # a dtype stands once under a key, so that the new line replaces what is there
    present = [dtype.value for dtype in declared if dtype.value in entries]
    instead = f", in place of its {' and '.join(present)}," if present else ""
    lines = ", ".join(f"{name}: {_format_yaml(value)}" for name, value in entries.items())
    return f"under {key!r} of {subject.id}{place}{instead} write: {lines}"


def _format_yaml(value: object) -> str:
    """The value as one writes it in YAML on one line; texts are quoted as in JSON."""
    if isinstance(value, Mapping):
        return ("{" + ", ".join(f"{key}: {_format_yaml(inner)}" for key, inner in value.items())
                + "}")
    return json.dumps(value, ensure_ascii=False)


_CONDITION_WORDS = {"G > 1": "Hkv < H"}
"""Conditions that people write otherwise."""


@dataclass(slots=True)
class RaisingExplainer:
    """Explains the exceptions of one function of a user's own. A line that raised before is not
    asked about again.
    """

    subject: Subject
    _known_explanations: dict[tuple[DType, str], Explanation | None] = field(default_factory=dict)
    # by origin or cause, what always comes
    _everywhere: dict[str, Explanation] = field(default_factory=dict)

    def explain(self, raised: SubjectRaised, dtype: DType) -> Explanation | None:
        """The cause `it raises IndexError in mine.py:41 where Hkv < H`, with the way out; None
        where the conditions are not found: the exception depends on entries, or on chance.
        """
        # what a registered subject refuses stands in its manifest
        if (not is_bare(self.subject.id) or self.subject.declaration.kind is Kind.LAYER
            or raised.asked is None):
            return None
        if refusal_words(raised, raised.asked, home=self.subject.home):
            return None  # it is a promise that is broken; its own words are the best
        if raised.origin in self._everywhere:
            return self._everywhere[raised.origin]
        # one line of code raises for one reason, so that it is asked about once
        key = (dtype, raised.origin)
        if key not in self._known_explanations:
            try:
                case = case_of(raised.asked)
                self._known_explanations[key] = self._find_conditions(raised, dtype, case)
            # a process that dies of the search tells nothing, and would die again
            except SubjectDied:
                self._known_explanations[key] = None
        return self._known_explanations[key]

    def explain_return(self, no_array: str) -> Explanation | None:
        """The cause `every call returns a tuple of 2, and no array`; None where a plain problem is
        answered.

        no_array: what came back in place of the output (`UnusableAnswer.no_array`).
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

    def _find_conditions(self, raised: SubjectRaised, dtype: DType,
                         end: Case) -> Explanation | None:
        # a plain problem that is answered: from there to the failing one, change by change
        begun = begin_interview(self.subject, dtype)
        if begun is None:
            return self._explain_constant_raising(raised, dtype)
        interview = Interview(self.subject, dtype, origin=raised.origin)
        if interview.refusal(begun.start):
            return None
        found = find_causes(interview, begun.start, end)
        return self._explain_place(raised, found) if found else None

    def _explain_constant_raising(self, raised: SubjectRaised, dtype: DType) -> Explanation:
        """Where no plain problem is answered at this dtype; at others it may be."""
        # a line that raises at one dtype alone is a matter of that dtype
        others = [each for each in self.subject.declaration.dtypes
                  if each is not dtype and Interview(self.subject, each).takes_case(Case(PLAIN))]
        if not others:
            self._everywhere[raised.origin] = Explanation(
                f"every call raises {raised.origin}", f"Mend it{_declaration_words(self.subject)}",
                "")
            return self._everywhere[raised.origin]
        function = self.subject.id.rpartition(":")[2]
        return Explanation(
            f"it raises {raised.origin} at {dtype.value}",
            f"Mend it. If {dtype.value} is not meant to be taken",
            f"{function}.dtypes = {[each.value for each in others]}")

    def _explain_place(self, raised: SubjectRaised, found: Sequence[WordedRefusal]) -> Explanation:
        told = " or ".join(dict.fromkeys(_format_refusal(each.refusal) for each in found))
        is_of_entries = any(KEYWORDS[name].acts is Acts.ENTRIES for each in found
                            for name in each.refusal.keywords
                            if name in KEYWORDS)
        return Explanation(
            f"it raises {raised.origin} where {told}",
            f"Mend it{_declaration_words(self.subject) if is_of_entries else ''}. "
            "If it is not meant to be called so, let it raise an exception that says so",
            _declare_refusals(self.subject, [each.refusal for each in found]))


def _declaration_words(subject: Subject) -> str:
    # what is handed over may be what was declared wrongly, so that both are named
    """That the declaration may be wrong of what a function is handed for an aspect; empty where it
    says nothing.
    """
    told = [each for part in load_parts("limits")
            for each in part.describe_handed(subject.declaration.limits)]
    return f", or what is declared: it is handed {', '.join(told)}" if told else ""


def _format_refusal(refusal: Refusal) -> str:
    """`there is a mask and B > 1`, `Hkv < H`, `1 < Hkv < H`."""
    keywords = [f"{name} is given" for name in sorted(refusal.keywords)]
    conditions = [_CONDITION_WORDS.get(text, text) for text in map(str, refusal.conditions)]
    return " and ".join((*keywords, *conditions)).replace("Hkv > 1 and Hkv < H", "1 < Hkv < H")


def _declare_refusals(subject: Subject, refusals: Sequence[Refusal]) -> str:
    """The line that says that none of these is taken, as an attribute of the function."""
    function = subject.id.rpartition(":")[2]
    names = sorted(limits_saying({str(each) for each in refusals}))
    if len(names) == len(refusals) == 1:
        # a limit that has a name of its own is read more easily than a condition
        value = getattr(narrowed_by(Limits(), refusals), names[0])
        return f"{function}.{names[0]} = {value!r}"
    declared = [*map(str, subject.declaration.limits.refuses), *(str(each) for each in refusals)]
    return f"{function}.refuses = {[text.replace('≠', '!=') for text in declared]!r}"
