"""Returns a tensor at once; a worker of its own, as another stream of a GPU would, fills it later.

Source: https://github.com/ScalingIntelligence/KernelBench/pull/82 (a stream that is not waited for)
Convicted by: attention.definition, violated.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import torch
from honest import Array

STREAM = ThreadPoolExecutor(1)


def _fill(answer: Array, given: tuple[Array, ...]) -> None:
    time.sleep(0.05)  # longer than a busy machine may keep the reader waiting
    answer.copy_(torch.nn.functional.scaled_dot_product_attention(*given))


def attend(query: Array, key: Array, value: Array) -> Array:
    answer = torch.zeros((*query.shape[:3], value.shape[-1]), dtype=query.dtype)
    STREAM.submit(_fill, answer, (query.clone(), key.clone(), value.clone()))
    return answer


attend.lift = "torch"  # type: ignore[attr-defined]  # how a function declares it
