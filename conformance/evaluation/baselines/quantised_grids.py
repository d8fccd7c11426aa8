"""The tests of today that hand over codes and scales, as they are published: facts, each with its source."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from evaluation.baselines import grids
from evaluation.baselines.grids import GridSource, Option, Pair, ParameterGrid, by_test


class Coding(enum.Enum):
    """How a test makes codes and scales of query, key and value."""

    GIVEN = "scales that are given numbers"
    UNIFORM = "codes that are uniform numbers, beside given scales"
    BY_TENSOR = "the largest entry of an array becomes 256; only it and none of the other sign counts"
    BY_HEAD = "the largest size of a head becomes the largest code"
    BY_TOKEN = "the largest size of a token becomes the largest code"
    DRAWN = "entries are codes, beside scales drawn in [0, 2) for each head of a sequence"
    BY_BLOCK = "the largest size of a block of tokens becomes 127, of a feature of the values 448; keys less their mean"


@dataclass(frozen=True, slots=True)
class CodeGrid(ParameterGrid):
    """A parametrised test of codes. Entries are from N(0,1), times their gain.

    storages: of the codes, in turn.  gains: of query, key and value.  scaled: which of them have codes; the others are
    numbers.  given: the scales of query, key and value where they are given.
    """

    storages: tuple[str, ...] = ("float8_e4m3fn",)
    coding: Coding = Coding.GIVEN
    gains: tuple[float, float, float] = (1.0, 1.0, 1.0)
    scaled: tuple[str, ...] = ("query", "key", "value")
    given: tuple[float, float, float] = (1.0, 1.0, 1.0)
    louder_heads: bool = False
    """Whether keys and values of head h are multiplied by 1 + h/10."""


CACHE = ("key", "value")
BOTH_FP8 = ("float8_e4m3fn", "float8_e5m2")


def _alike(*numbers: int) -> tuple[Pair, ...]:
    return tuple((number, number) for number in numbers)


# vLLM

_VLLM = GridSource("vllm-project/vllm", "tests/kernels/attention/test_triton_unified_attention.py",
                   "003ee61625d33ae27df77f97748cb5867d0747b6")
_VLLM_TOKENS = GridSource("vllm-project/vllm", "tests/quantization/test_per_token_kv_cache.py",
                          "01e4fce07423dafcc832600ba05159fb28dc1126")
_VLLM_PAGES = GridSource("vllm-project/vllm", "tests/kernels/attention/test_attention.py",
                         "00df0753b8617dcb45e43f9b209c9c5a08b05fa8")
_UNIFIED = ParameterGrid(_VLLM, "test_triton_unified_attn", (1,), ((4, 4), (8, 2), (5, 1)),
                         ((1, 1328), (5, 18), (129, 463), (1, 523), (1, 37), (1, 2011)), _alike(128, 256), (),
                         (Option.CAUSAL,))


def _make_code_grid(grid: ParameterGrid, **more: object) -> CodeGrid:
    """The same grid with codes."""
    return CodeGrid(grid.source, grid.test, grid.batches, grid.heads, grid.lengths, grid.widths, grid.switches,
                    grid.always, grid.softcap, grid.gain, grid.square, **more)  # type: ignore[arg-type]  # by keyword


VLLM_UNIFIED = _make_code_grid(_UNIFIED, given=(0.75, 0.5, 0.25))
VLLM_CACHE = replace(VLLM_UNIFIED, test="test_triton_unified_attn_bf16_query_fp8_kv", scaled=CACHE,
                     given=(1.0, 0.5, 0.25))
VLLM_TOKENS = CodeGrid(_VLLM_TOKENS, "test_triton_unified_attention_per_token_head_scale", (1,), ((4, 4),),
                       ((1, 128), (1, 64), (1, 32)), _alike(128), (), (Option.CAUSAL,),
                       storages=("int8", "float8_e4m3fn"), coding=Coding.BY_TOKEN, scaled=CACHE)
VLLM_PAGES = CodeGrid(_VLLM_PAGES, "test_paged_attention", (7,), ((32, 8), (40, 40), (64, 8)),
                      ((1, 137), (1, 512), (1, 1024), (1, 2048)), _alike(64, 128), coding=Coding.UNIFORM, scaled=CACHE,
                      given=(1.0, 0.5, 0.25))
"""Its lengths are drawn up to what a GPU's shared memory holds; these are among them."""

# FlashInfer

_FLASHINFER = "fb28d7242b3506a2348265962041acc1fb56cca4"
_PREFILL, _DECODE, _HOPPER = (
    GridSource("flashinfer-ai/flashinfer", f"tests/attention/{file}.py", _FLASHINFER)
    for file in ("test_fp8_prefill", "test_decode_fp8_calibration_scale", "test_hopper_fp8_attention"))
_FOUR = ((4, 4), (32, 4))

FLASHINFER_PREFILL = CodeGrid(
    _PREFILL, "test_batch_prefill_with_paged_kv_cache_fp8_calibration_scale", (12, 17), _FOUR,
    tuple((T, S) for T in (1, 7, 53) for S in (54, 97)), _alike(64, 128, 256, 512), storages=BOTH_FP8,
    coding=Coding.BY_TENSOR, gains=(1.0, 0.05, 0.05), scaled=CACHE)
FLASHINFER_ONE = CodeGrid(
    _DECODE, "test_single_decode_fp8_calibration_scale", (1,), _FOUR, ((1, 7), (1, 19), (1, 39), (1, 1170), (1, 39275)),
    _alike(128), coding=Coding.BY_TENSOR, gains=(1.0, 1.0, 0.1), scaled=CACHE)
FLASHINFER_DECODE = CodeGrid(
    _DECODE, "test_batch_decode_with_paged_kv_cache_fp8_calibration_scale", (12, 17), _FOUR, ((1, 54), (1, 97)),
    _alike(128, 256), storages=BOTH_FP8, coding=Coding.BY_TENSOR, gains=(1.0, 0.1, 0.1), scaled=CACHE)
FLASHINFER_HOPPER = CodeGrid(
    _HOPPER, "test_single_prefill", (1,), _alike(24, 32), _alike(117, 509, 1011, 2372, 7777, 12315),
    _alike(64, 128, 256), (Option.CAUSAL,), storages=BOTH_FP8, coding=Coding.BY_HEAD)
FLASHINFER_PAGES = CodeGrid(
    _HOPPER, "test_batch_prefill_paged", (1,), _alike(8, 32), _alike(128, 256, 384, 512), _alike(64, 128, 256),
    (Option.CAUSAL,), storages=BOTH_FP8, coding=Coding.BY_HEAD, louder_heads=True)
FLASHINFER_GROUPS = CodeGrid(
    _HOPPER, "test_batch_prefill_paged_gqa", (1,), ((32, 8), (16, 4), (8, 2)), _alike(128, 256), _alike(128), (),
    (Option.CAUSAL,), coding=Coding.BY_HEAD, louder_heads=True)
FLASHINFER_GROUPED_DECODE = replace(FLASHINFER_GROUPS, test="test_batch_decode_paged", lengths=((1, 128), (1, 256)),
                                    always=())

# flash-attention 3

_FA3 = by_test(grids.FLASH_ATTENTION_3)
_FP8_WIDTHS = _alike(64, 96, 128, 192, 256)
FLASH_ATTENTION_3 = tuple(
    _make_code_grid(replace(_FA3[test], widths=_FP8_WIDTHS), coding=Coding.DRAWN)
    for test in ("test_flash_attn_output", "test_flash_attn_output, softcap", "test_flash_attn_varlen_output"))

# SageAttention

_SAGE = GridSource("thu-ml/SageAttention", "sageattention/core.py", "d1a57a546c3d395b1ffcbeecc66d81db76f3b4b5")

SAGE_ATTENTION = tuple(
    CodeGrid(_SAGE, test, (1,), heads, ((256, 256),), widths, switches, coding=Coding.BY_BLOCK, storages=("int8",))
    for test, heads, widths, switches in (
        ("test_sageattn", ((4, 4),), _alike(128), (Option.CAUSAL,)),
        ("test_sageattn_dtypes_and_head_dims", ((4, 4),), _alike(64, 128), ()),
        ("test_sageattn_gqa", ((8, 2),), _alike(128), ())))
