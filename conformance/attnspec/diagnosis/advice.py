"""What a finding says first where the likeliest reason has a known way out: a declaration, an adapter, a line."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from attnspec.core.conventions import CONVENTIONS, UNDEFINED, unlike_any
from attnspec.core.nouns import is_bare
from attnspec.diagnosis.diagnose import Diagnosis
from attnspec.diagnosis.inputs import mattering
from attnspec.diagnosis.locate import INVERTED, NOTHING, SPOILT
from attnspec.diagnosis.overflow import WITHOUT_MAXIMUM
from attnspec.host.lifts import LIFTS
from attnspec.problems.recipe import Recipe
from attnspec.record.outcome import Explanation
from attnspec.spec.load import added_files
from attnspec.spec.yaml_lines import shown
from attnspec.subjects.subject import Subject
from attnspec.subjects.target import importable
from attnspec.trials.trial import Trial
from attnspec.vocabulary.measures import beyond
from attnspec.vocabulary.observables import see

_ASKS_FOR_TENSORS = re.compile(r"(must be|expected) Tensor\b.*\bnumpy\.ndarray")
"""As PyTorch's own functions say it, also where a module imports no more than such a function."""


def missing_lift(subject: Subject, said: str) -> Explanation | None:
    """What to say where a function of one's own raises on arrays, and its module imports a framework, or the exception
    asks for the tensors of one. said: the exception.
    """
    lift, why = wanted_lift(subject, said)
    if not lift:
        return None
    return Explanation(f"it gets NumPy arrays, and {why} (--lift {lift} gives it tensors)",
                       f"Give it tensors, with --lift {lift}", f'{subject.id.rpartition(":")[2]}.lift = "{lift}"')


def wanted_lift(subject: Subject, said: str) -> tuple[str, str]:
    """The framework whose tensors such a function takes, and how that is known; both empty where that is not."""
    if not is_bare(subject.id) or subject.declaration.lift:
        return "", ""
    used = frameworks_of(subject)
    if lift := next((lift for lift in LIFTS if lift in used), ""):
        return lift, f"its module imports {lift}"
    return ("torch", "takes tensors of torch") if _ASKS_FOR_TENSORS.search(said) else ("", "")


def frameworks_of(subject: Subject) -> frozenset[str]:
    """The packages that the module of the subject's function imports by name, and the framework it is handed."""
    used = subject.described.uses if subject.described else ()
    return frozenset({subject.declaration.lift, *used} - {""})


ALWAYS, THE_OTHER_WAY = "causal_always", "mask_inverted"
_FINITE = ("mask_constant_", "mask_adds_")
"""How faults begin that hide a key by a finite number."""


def way_out(trial: Trial, recipe: Recipe, diagnosis: Diagnosis, held: Sequence[Recipe] = ()) -> Explanation | None:
    """What to do about the diagnosis of a case, for the mistakes that students and users of libraries make most.

    held: cases that hold beside it. A convention on which one of them hangs is not what is wrong.
    """
    subject, likeliest = trial.evaluator.subject, diagnosis.like[0].fault if diagnosis.like else ""
    if likeliest == ALWAYS:
        return _causal_by_design(subject)
    if likeliest == WITHOUT_MAXIMUM:
        return Explanation(f"exp overflows: the maximum of the logits is not subtracted before it (`{likeliest}`)",
                           "Subtract it from each row: exp(logits - logits.max(axis=-1, keepdims=True))", "")
    if likeliest.startswith(_FINITE):
        return Explanation(f"masked logits get a finite number, and visible ones may lie lower (`{likeliest}`)",
                           "Use -inf: it is lower than any logit. Rows whose visible logits are all higher than the "
                           "number are right as they are", "")
    if likeliest == THE_OTHER_WAY or diagnosis.located == INVERTED:
        return _mask_inverted(subject)
    if not diagnosis.located.startswith((NOTHING, SPOILT)):
        return None
    followed = {name for case in held for name in mattering(case)}
    doubtful = [name for name in mattering(recipe) if name not in followed]
    return of_no_answer(subject, doubtful, trial.evaluator.conventions)


def of_wrong_clause(trial: Trial, recipe: Recipe, added: Sequence[str]) -> Explanation | None:
    """What to do about a clause of the user's own files that a case violates, within rounding, though each answer of it
    is right; None of another clause.
    """
    clause = trial.check.clause
    if clause.where.file not in map(shown, added_files(added)):
        return None
    scene = trial.scene(recipe)
    asked = {str(word.args["observe"]) for word in clause.then if "observe" in word.args}
    seen = [see(scene, run, each) for each in asked for run in scene.runs]
    if not seen or any((beyond(each.array, each.truth, each.allowance) | ~each.claimed).any() for each in seen):
        return None
    return Explanation("the clause is wrong: each answer in this case is right by the definition",
                       f"Mend it ({clause.where}), or say under `given` where it holds", "")


def of_no_answer(subject: Subject, names: Sequence[str], found: Mapping[str, str]) -> Explanation | None:
    """What to do about a convention of these, of which the probes found no known answer and none is declared."""
    name = next((name for name in names if found.get(name) == UNDEFINED
                 and name not in subject.declaration.conventions), "")
    if not name:
        return None
    return Explanation(unlike_any(name), f"Make it one of these; {CONVENTIONS[name].recommended} is recommended", "")


def _mask_inverted(subject: Subject) -> Explanation | None:
    """Of a function of one's own: to turn it round, or to have an adapter do so."""
    if not is_bare(subject.id):
        return None
    return Explanation(INVERTED, "Invert it. If your library documents that True hides a key, keep it: "
                                 f"`attnspec init {importable(subject.id)}` writes an adapter that turns the mask", "")


def _causal_by_design(subject: Subject) -> Explanation | None:
    """Of a function of one's own that has no causal flag: it may be meant so."""
    if not is_bare(subject.id) or "causal" in subject.declaration.keywords:
        return None
    name, wrapper = _wrapped(subject)
    return Explanation(f"it is causal, and has no causal flag (`{ALWAYS}`)",
                       "Let it take `causal`. If every call is meant to be causal, wrap it: "
                       f"def {wrapper}(query, key, value, *, causal=True): return {name}(query, key, value), and "
                       f"declare it: {wrapper}.causal_only = True", "")


def _wrapped(subject: Subject) -> tuple[str, str]:
    """The name of a function, and that of one to wrap it in."""
    name = subject.id.rpartition(":")[2]
    return name, "wrapped" if name == "attend" else "attend"


def manifest_line(subject: Subject, key: str, entries: Mapping[str, object]) -> str:
    """`under 'precision' of mine/attend (FILE:LINE) write: float16: {…}`, and what of it is there already."""
    place = f" ({subject.entry})" if subject.entry else ""
    declared = {"precision": subject.declaration.precision,
                "backward_precision": subject.declaration.backward_precision}.get(key, {})
    present = [dtype.value for dtype in declared if dtype.value in entries]
    instead = f", in place of its {' and '.join(present)}," if present else ""
    lines = ", ".join(f"{name}: {_yaml(value)}" for name, value in entries.items())
    return f"under {key!r} of {subject.id}{place}{instead} write: {lines}"


def _yaml(value: object) -> str:
    """The value as one writes it in YAML on one line; texts are quoted as in JSON."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_yaml(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)
