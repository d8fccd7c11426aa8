"""The measurement of the faults of codes at each storage puts what is right to the same clauses, and finds it right."""

from __future__ import annotations

import pytest
import storages
from attnspec.aspects.quantised.storage import STORAGES
from attnspec.core.nouns import DType, Effort
from attnspec.faults.subject import own_subject
from attnspec.trials.evaluator import Evaluator
from attnspec.trials.trial import Trial

CLAUSES = {"mxfp8": "quantised.mx_keys", "mxfp4": "quantised.mx_values", "nvfp4": "quantised.nv_keys"}


@pytest.mark.parametrize("storage", STORAGES)
def test_attention_without_a_mistake_holds_at_each_storage(storage: str) -> None:
    right = storages.declare_storage(own_subject("sound/dequantised_first"), storage, DType.FLOAT32, ("key", "value"))
    check = storages.checks()[CLAUSES.get(storage, "quantised.keys")]
    tally = Trial(check, Evaluator(right, DType.FLOAT32), Effort.QUICK, 0, lambda _: None, shrinks=False).hold()
    assert tally.failure is None
    assert tally.cases > 0


@pytest.mark.parametrize("storage", [name for name, each in STORAGES.items() if each.block])
def test_attention_whose_blocks_lie_along_the_tokens_holds_too(storage: str) -> None:
    right = storages.declare_storage(own_subject("sound/dequantised_first"), storage, DType.FLOAT32, ("key", "value"),
                                     shared=f"channel_tokens({STORAGES[storage].block})")
    check = storages.checks()[CLAUSES[storage]]
    tally = Trial(check, Evaluator(right, DType.FLOAT32), Effort.QUICK, 0, lambda _: None, shrinks=False).hold()
    assert tally.failure is None
    assert tally.cases > 0


def test_a_fault_is_found_at_its_storage_and_leaves_no_trace_at_another() -> None:
    assert storages.judge_fault("key_scale_ignored", "int8", "float32")["convicted"]
    assert not storages.judge_fault("key_scale_power_of_two", "mxfp8", "float32")["has_trace"]
