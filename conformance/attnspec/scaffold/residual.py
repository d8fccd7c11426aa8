"""A layer that adds its input to what it computes: what its output projection returns is judged, which has nothing
added.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from attnspec.scaffold.form import CallableKind, CallForm
from attnspec.scaffold.probe_problems import list_expected, plain_problem, tolerance_of
from attnspec.scaffold.trial_adapter import Trier


def find_output_projection(form: CallForm) -> str:
    """The submodule of PyTorch that is the output projection, such as `proj`; empty where there is none."""
    if form.family is not CallableKind.TORCH:
        return ""
    paths = ["".join(path).lstrip(".") for path, text in (form.state or {}).items() if 'params["w_out"]' in text]
    return next((path.rpartition(".")[0] for path in paths if path.count(".")), "")


def judge_before_sum(form: CallForm) -> CallForm:
    """The form whose output is what its output projection returns."""
    name = find_output_projection(form)
    return replace(form, judged_part=name) if name else form


def adds_its_input(form: CallForm, trier: Trier) -> bool:
    """Whether a form that is right before the sum answers its input more where it is asked as a whole."""
    problem = plain_problem(form)
    answer = trier.answer(replace(form, judged_part=""), problem)
    if answer is None or answer.output.shape != problem.query.shape:
        return False
    rest = answer.output.astype(np.float64) - problem.query.astype(np.float64)
    return any(truth.gap(rest)[0] <= tolerance_of(problem.dtype) for truth in list_expected(problem, form.default_scale,
    form.mistake))


def note_sum(form: CallForm) -> CallForm:
    """The form, and that a sum is not judged."""
    said = (f"It adds its input (a residual). Judged is what its {form.judged_part} returns, to which nothing is "
            f"added: that the sum is right was seen in one case.")
    return replace(form, remarks=(*form.remarks, said))
