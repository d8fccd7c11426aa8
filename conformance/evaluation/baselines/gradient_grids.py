"""The tests of today that compare gradients, with what each allows, as they are published: facts, with their source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from attnspec.core.nouns import DType

from evaluation.baselines import grids
from evaluation.baselines.grids import HALVES, THREE, Option, ParameterGrid, by_test

QKV = ("query", "key", "value")

Factors = Mapping[str, float]  # by gradient: how many times the error of the low reference


@dataclass(frozen=True, slots=True)
class GradientTest:
    """A parametrised test that compares gradients.

    factors: by the gradients that it compares, how many times the error of a low-precision reference it allows.
    beside_slopes: the factors with ALiBi, where they are others.  plus: what it adds to that.  is_packed: the three are
    one tensor, with one largest error.  gains: what query, key and value are multiplied by.  is_strided: the output's
    gradient is every other entry of an array that lies query by query.
    """

    grid: ParameterGrid
    factors: Factors
    beside_slopes: Factors = field(default_factory=dict)
    plus: float = 0.0
    is_packed: bool = False
    gains: tuple[float, float, float] = (1, 1, 1)
    is_strided: bool = False
    dtypes: tuple[DType, ...] = HALVES

    def factors_with(self, options: frozenset[Option]) -> Factors:
        """The factors with these options."""
        return self.beside_slopes if self.beside_slopes and Option.ALIBI in options else self.factors


def grids_of(tests: Sequence[GradientTest]) -> tuple[ParameterGrid, ...]:
    """Their grids."""
    return tuple(test.grid for test in tests)


def _alike(factor: float) -> Factors:
    return dict.fromkeys(QKV, factor)


# flash-attention 2: the tests whose forward grids are known, and two that are about the backward pass alone

_FLASH = by_test(grids.FLASH_ATTENTION)
_PLAIN = replace(_FLASH["test_flash_attn_output"], switches=(Option.CAUSAL,))

FLASH_GRADIENTS = (
    GradientTest(_FLASH["test_flash_attn_output"], _alike(3)),
    GradientTest(_FLASH["test_flash_attn_output, softcap"], _alike(3)),
    GradientTest(_FLASH["test_flash_attn_varlen_output"], _alike(3)),
    GradientTest(_FLASH["test_flash_attn_qkvpacked"], _alike(2), is_packed=True),
    GradientTest(_FLASH["test_flash_attn_varlen_qkvpacked"], _alike(2), is_packed=True),
    GradientTest(_FLASH["test_flash_attn_causal"], _alike(2), plus=1e-5),
    GradientTest(_FLASH["test_flash_attn_varlen_causal"], _alike(2), plus=1e-5),
    GradientTest(_FLASH["test_flash_attn_splitkv"], _alike(2), _alike(8), plus=2e-4),
    GradientTest(replace(_PLAIN, test="test_flash_attn_bwd_overflow", batches=(2,), heads=((5, 5),),
                         lengths=tuple((length, length) for length in (1, 2, 5, 17, 128)),
                         widths=tuple((width, width) for width in (16, 32, 64))),
                 _alike(5), plus=1e-3, gains=(5, 3, 3), dtypes=(DType.FLOAT16,)),
    GradientTest(replace(_PLAIN, test="test_flash_attn_bwd_transpose", batches=(5,), heads=((2, 2),),
                         lengths=tuple((length, length) for length in (97, 128, 200, 256)),
                         widths=((64, 64), (128, 128))), _alike(2), is_strided=True),
)

# PyTorch's tests of scaled_dot_product_attention against its math path, on CUDA

_FUSED = by_test(grids.FUSED_ATTENTION)

FUSED_LEAST = 1e-5
"""PyTorch allows at least this distance, at every dtype: the absolute default of float32."""

FUSED_GRADIENTS = (
    GradientTest(_FUSED["test_mem_efficient_attention_vs_math_ref_grads"], {"query": 150, "key": 25, "value": 8.5},
                 dtypes=THREE),
    GradientTest(_FUSED["test_mem_efficient_attention_attn_mask_vs_math_ref_grads"],
                 {"query": 160, "key": 25, "value": 8, "bias": 45}, dtypes=THREE),
    GradientTest(_FUSED["test_flash_attention_vs_math_ref_grads"], {"query": 180, "key": 16, "value": 4}),
    GradientTest(_FUSED["test_fused_attention_vs_math_ref_grads_cudagraph"], {"query": 110, "key": 8, "value": 3},
                 dtypes=(DType.FLOAT16,)),
)
