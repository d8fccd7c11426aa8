"""The mistakes of real attentions, by class of mechanism and by size; and the faults that make the
same mistake, or why none does.

Each thread is public: it reports or repairs one mistake in one library. It was read, mostly in
part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attnspec.faults.fault import GITHUB, Outside, SizeThread, all_mistakes, of_aspects
from attnspec.faults.size_family import reach_of
from attnspec.faults.sizes.families import ALL_FAMILIES

OF_MADE: Mapping[str, Mapping[str, str | Outside]] = {"compiled, exported, mapped or recomputed": {
    "pytorch/pytorch/issues/148545": "compiled_for_first_shape",
    "ccdv-ai/convert_checkpoint_to_lsg/issues/15": "exported_branch_taken_once",
    "pytorch/pytorch/issues/151561": "mapped_mask_of_first",
    "allenai/OLMo-core/pull/828": "recomputed_dropout_drawn_anew",
}}
"""By class of mechanism, as in `mechanisms`."""


Bugs = Mapping[str, str | Outside]

_BY_CLASS: Mapping[str, Bugs] = {
    "batch/head mixup": {
        "pytorch/pytorch/issues/177378": "batch_packed_together query_lengths_packed_together segments_ignored",
        "onnx/onnx/issues/7118": "heads_key_not_transposed",
        "huggingface/diffusers/pull/3214": "batch_and_heads_exchanged",
        "sooftware/attentions/issues/4": "mask_head_major layer_mask_head_major",
        "tinygrad/tinygrad/pull/14025": "layer_split_not_transposed",
        "ggml-org/llama.cpp/issues/7903": "batch_first_key_and_value past_of_first_entry decoder_entries_of_first",
        "reczoo/FuxiCTR/issues/30": "heads_value_not_transposed",
        "jsbaan/transformer-from-scratch/pull/6": "heads_output_not_transposed",
        "hackiey/QAnet-pytorch/issues/2": "layer_merge_not_transposed",
        "aipixel/AEMatter/issues/3": "layer_attends_over_batch layer_output_time_first",
    },
    "bias dropped": {"lucidrains/x-transformers/issues/298": "bias_ignored layer_bias_ignored slopes_ignored"},
    "block tail": {
        "jax-ml/jax/issues/27224": "blocks_tail_dropped",
        "NVIDIA/Megatron-LM/issues/132": "blocks_tail_repeated width_beyond_eights_lost",
        "tracel-ai/cubecl/pull/1027": "mask_dropped_in_last_block blocks_mask_of_first",
    },
    "cache index": {
        "huggingface/transformers/pull/45940":
            "blocks_tail_counted key_lengths_dropped_for_one_query past_beyond_lengths decoder_unwritten_slots_seen",
        "huggingface/transformers/pull/48280": "mask_shifted past_mask_rolled",
        "rasbt/LLMs-from-scratch/pull/697": "mask_of_first_row",
        "lablup/mlxcel/issues/75": "mask_padded_left key_lengths_from_the_end decoder_length_of_first_entry",
        "NVIDIA-NeMo/Speech/pull/4859": Outside.REFUSAL,
        "sgl-project/sgl-kernel-xpu/issues/196": "past_for_one_query_only decoder_chunk_sees_itself_only",
    },
    "causal alignment": {
        "Dao-AILab/flash-attention/issues/1778": Outside.CONVENTION,
        "pytorch/pytorch/issues/110144": Outside.CONVENTION,
        "Dao-AILab/flash-attention/pull/436": Outside.CONVENTION,
        "Dao-AILab/flash-attention/issues/581": Outside.CONVENTION,
        "MinghuasLab/flash-attention-npu/issues/153": "causal_square_then_open causal_dropped_when_not_square",
        "pytorch/executorch/pull/21749": "causal_bottom_right past_offset_forgotten decoder_place_restarts",
        "openvinotoolkit/openvino/pull/36680": "causal_bottom_right",
        "microsoft/onnxruntime/issues/29020": "causal_dropped_for_one_query",
    },
    "causal leak": {"pytorch/pytorch/issues/195910": "causal_four_rows causal_blocks_of_16"},
    "compiled vs eager": {
        "pytorch/pytorch/issues/139462": "batch_first_only",
        "pytorch/pytorch/issues/165838": "every_seventh_call_wrong",
        "pytorch/pytorch/issues/121174": Outside.TASTE,
    },
    "decode vs prefill": {"ml-explore/mlx/issues/3452":
            "one_query_sink one_query_unscaled one_query_uniform sinks_dropped_for_one_query sinks_for_one_query_only"},
    "dropout in eval": {
        "pytorch/pytorch/issues/124464": Outside.CONVENTION,
        "huggingface/pytorch-image-models/pull/1978": "dropout_of_1_percent dropout_random",
        "meta-pytorch/torchtune/issues/1791": "dropout_random",
        "facebookresearch/vjepa2/pull/160": "dropout_random drop_left_on",
        "NVIDIA/torch-harmonics/pull/221": "dropout_random",
        "Jittor/jittor/issues/628": Outside.REFUSAL,
        "colehurwitz/IBL_MtM_model/pull/13": "dropout_random",
    },
    "dtype promotion": {"google/flax/pull/3571": "output_promoted float64_narrowed"},
    "fast path divergence": {
        "pytorch/pytorch/issues/86120": "mask_dropped_without_weights",
        "pytorch/pytorch/issues/136816": "bias_after_softmax",
        "pytorch/pytorch/issues/147209": "bias_as_mask",
        "pytorch/pytorch/issues/110505": "hidden_row_nan",
    },
    "fully masked row NaN": {
        "pytorch/pytorch/issues/109517": "hidden_row_nan",
        "pytorch/pytorch/issues/110213": "blocks_hidden_first_nan",
        "huggingface/transformers/issues/38690": "hidden_row_nan",
        "pytorch/pytorch/issues/100318": "hidden_row_nan",
        "Dao-AILab/flash-attention/issues/443": "grad_empty_row_nan",
        "huggingface/transformers/issues/32390": "hidden_row_nan hidden_row_first_key",
        "robertknight/rten/pull/1321": "hidden_row_nan",
        "lucidrains/nGPT-pytorch/issues/11": "grad_empty_row_nan",
        "pytorch/pytorch/issues/156707": "hidden_row_nan",
        "NVIDIA/apex/pull/1444": "hidden_row_uniform",
        "pytorch/pytorch/issues/103963": "hidden_row_nan",
    },
    "gqa head order": {
        "microsoft/onnxruntime/pull/26057": "gqa_tiled",
        "vllm-project/vllm-ascend/pull/2758": "gqa_repeated_in_time",
        "ByteDance-Seed/VeOmni/pull/162": "gqa_repeated_in_time",
        "apple/axlearn/pull/842": "gqa_tiled layer_gqa_tiled",
        "ekzhang/jax-js/pull/180": "gqa_tiled",
        "EricLBuehler/candle-vllm/pull/52": "gqa_first_head gqa_shifted_groups",
        "datawhalechina/tiny-universe/issues/21": "gqa_repeated_in_time",
        "ikawrakow/ik_llama.cpp/pull/1521": "gqa_group_of_two decoder_heads_by_turns",
    },
    "index overflow": {
        "ml-explore/mlx/issues/2894": "mask_column_in_a_byte",
        "ml-explore/mlx/issues/3360": "mask_column_in_a_byte",
        "Dao-AILab/flash-attention/issues/772": "batch_next_key_and_value",
        "NVIDIA-NeMo/Automodel/pull/3802": "mask_column_in_a_byte",
        "alexzhang13/flashattention2-custom-mask/issues/2": "mask_column_in_a_byte mask_head_stride_forgotten",
        "ggml-org/llama.cpp/issues/24912": "mask_row_stride_padded",
    },
    "layout/stride": {
        "pytorch/pytorch/issues/112577": "layout_with_mask",
        "pytorch/pytorch/pull/187506": "layout_last_axis",
        "pytorch/pytorch/issues/181133": "layout_of_query",
        "pytorch/pytorch/issues/191937": "layout_of_mask",
        "ROCm/pytorch/issues/3230": "layout_of_value",
        "torch-spyre/torch-spyre/issues/4331": "layout_of_key",
        "huggingface/transformers/pull/27973": "layout_with_mask",
    },
    "low precision mask value": {
        "tensorflow/tensorflow/issues/46064": "mask_in_float32",
        "NVIDIA-NeMo/Automodel/pull/2658": "mask_overflows_twice",
        "jax-ml/jax/pull/34114": "mask_overflows_twice hidden_row_nan",
        "google/flax/issues/982": "mask_constant_1e4 mask_constant_1e9",
    },
    "mask broadcast": {
        "pytorch/pytorch/pull/128816": "mask_of_first_key",
        "pytorch/pytorch/issues/172225": "mask_shared_in_group",
        "pytorch/pytorch/pull/184180": "mask_of_first_batch mask_head_stride_forgotten",
        "keras-team/keras/pull/20488": "mask_of_first_head",
        "keras-team/keras/issues/21483": "mask_not_broadcast",
        "huggingface/transformers/issues/39365": "mask_not_broadcast",
        "jax-ml/jax/issues/28974": "mask_not_broadcast",
        "tensorflow/tensorflow/issues/60626": "mask_not_broadcast mask_of_first_head",
        "huggingface/transformers/issues/37322": "mask_not_broadcast",
    },
    "mask dropped": {
        "pytorch/pytorch/issues/163314": "mask_whole_blocks",
        "keras-team/keras/issues/23038": "causal_dropped_with_weights layer_causal_dropped_with_weights"
                                           " report_before_causal switch_causal_dropped",
        "keras-team/keras/pull/23040": "causal_dropped_with_mask",
        "Mikyx-1/TinyLLM/pull/18": "causal_dropped_when_square past_causal_dropped decoder_causal_first_call_only",
        "pytorch/pytorch/issues/118025": "mask_dropped_with_weights report_before_mask",
        "pytorch/pytorch/pull/178588": "mask_dropped_with_causal layer_mask_dropped_with_causal"
                                       " layer_mask_dropped_without_weights",
        "jax-ml/jax/issues/19237": "causal_ignored",
        "axolotl-ai-cloud/axolotl/pull/3796": "mask_ignored",
        "areal-project/AReaL/issues/1442": "packed_together mask_ignored",
        "huggingface/nanoVLM/pull/204": "packed_together segments_ignored mask_ignored",
        "DeepOpt-com/WrinkleFree-Monorepo/issues/53": "mask_ignored",
        "iCog-Labs-Dev/PC-Transformers/issues/97": "layer_causal_ignored",
        "torch-spyre/torch-spyre/issues/4526": "switch_mask_dropped",
        "openvinotoolkit/openvino/pull/31106": "causal_ignored",
        "OpenNMT/OpenNMT-py/pull/2589": "mask_as_lengths",
    },
    "mask leak": {
        "microsoft/onnxruntime/issues/14363": "mask_adds_1e4 mask_dropped_with_causal",
        "pytorch/pytorch/issues/108503": "mask_whole_blocks hidden_row_nan",
    },
    "mask semantics": {
        "ml-explore/mlx/issues/2626": Outside.CONVENTION,
        "tinygrad/tinygrad/pull/2425": Outside.TASTE,
        "mlverse/torch/pull/1208": "mask_added_as_number",
        "microsoft/onnxscript/issues/580": "mask_added_as_number",
        "huggingface/transformers/pull/41443": "mask_added_as_number",
        "pytorch/pytorch/issues/118972": Outside.CONVENTION,
        "keras-team/keras/pull/19093": "causal_needs_mask",
        "huggingface/transformers/issues/36150": "mask_first_batch_decides",
        "huggingface/transformers/pull/42820": "causal_always",
        "huggingface/transformers/issues/46077": "causal_always",
        "HKUSTDial/flash-sparse-attention/issues/146": "keys_chosen_before_mask mask_multiplied_into_logits",
        "tensorflow/text/pull/894": "mask_inverted",
    },
    "off by one": {
        "flashinfer-ai/flashinfer/pull/348": "causal_off_by_one layer_causal_off_by_one past_causal_one_ahead",
    },
    "option ignored": {"Cerebras/modelzoo/pull/85": "layer_out_projection_skipped"},
    "out-of-bounds": {
        "pytorch/pytorch/issues/174861": "one_query_second_pass_off",
        "Dao-AILab/flash-attention/issues/20": Outside.BACKWARD,
        "Dao-AILab/flash-attention/issues/1076": "blocks_tail_reads_on",
        "Luce-Org/lucebox/pull/128": "mask_row_stride_padded",
    },
    "position ids": {
        "unslothai/unsloth/pull/3795": "rotary_positions_of_first_entry",
        "TransformerLensOrg/TransformerLens/issues/1609": "rotary_positions_ignored",
        "ndif-team/nnsight/pull/673": Outside.POSITIONS,
    },
    "ragged lengths": {
        "fla-org/flash-linear-attention/issues/431": Outside.CACHE,
        "pytorch/pytorch/issues/141429": "rows_dealt_out",
    },
    "shape": {
        "pytorch/pytorch/issues/176767": "value_beyond_width_lost",
        "google/flax/pull/3576": Outside.CACHE,
        "pytorch/pytorch/issues/195589": Outside.REFUSAL,
        "pytorch/pytorch/issues/130196": "packed_one_token_squeezed output_head_squeezed",
        "microsoft/onnxruntime/pull/13050": "layer_key_width_of_query",
        "microsoft/onnxruntime/pull/29892": "output_heads_of_keys",
    },
    "softmax axis": {
        "PetrochukM/PyTorch-NLP/issues/2": "softmax_over_batch",
        "labmlai/annotated_deep_learning_paper_implementations/issues/146":
            "softmax_over_queries layer_softmax_over_queries",
        "FudanNLP/fastNLP/issues/254": "softmax_over_heads",
    },
    "stale cache": {
        "pytorch/pytorch/pull/184122": "stale_output stale_scale",
        "NVIDIA/Megatron-LM/pull/411": Outside.TRAINING,
    },
    "weak test": {
        "ScalingIntelligence/KernelBench/issues/165": "output_zeros output_mean_of_values",
        "ScalingIntelligence/KernelBench/pull/82": "output_buffer_reused query_holds_output key_cleared",
        "AMD-AGI/AgentKernelArena/pull/82": "blocks_rows_after_64_lost blocks_keys_after_64_lost",
    },
    "wrong axis": {
        "jax-ml/jax/issues/35916": "output_time_first",
        "lucidrains/x-transformers/pull/85": "bias_heads_reversed slopes_reversed",
        "facebookresearch/xformers/issues/677": Outside.CONVENTION,
    },
    "wrong gradient": {
        "fla-org/flash-linear-attention/issues/1140": Outside.BACKWARD,
        "NVIDIA/apex/pull/816": "dropout_not_rescaled drop_rescaled_by_rate grad_drop_rescaled_by_rate",
        "NVIDIA/apex/pull/860": Outside.BACKWARD,
        "pytorch/pytorch/issues/133671": Outside.BACKWARD,
        "pytorch/pytorch/issues/148476": Outside.BACKWARD,
    },
    "wrong value (unspecified)": {
        "microsoft/onnxruntime/pull/3677": Outside.UNTOLD, "huggingface/kernels/issues/101": Outside.UNTOLD},
    "wrong weights": {
        "pytorch/pytorch/issues/27968": "report_after_dropout",
        "pytorch/pytorch/issues/42929": "report_after_dropout",
    },
}

_TABLES: tuple[Mapping[str, Mapping[str, str | Outside]], ...] = (
    _BY_CLASS, OF_MADE, *(aspect.bugs for aspect in all_mistakes()))

BUGS: Mapping[str, Mapping[str, tuple[str, ...] | Outside]] = {
    mechanism: {GITHUB + thread: faults if isinstance(faults, Outside) else tuple(faults.split())
                for table in _TABLES for thread, faults in table.get(mechanism, {}).items()}
    for mechanism in dict.fromkeys(mechanism for table in _TABLES for mechanism in table)}
"""By class: each real mistake's thread, and the faults that make it, or why none does."""


def faults_of(mechanism: str) -> tuple[str, ...]:
    """The faults that make a class of mistakes, each once."""
    rows = (faults for faults in BUGS[mechanism].values() if not isinstance(faults, Outside))
    return tuple(dict.fromkeys(fault for faults in rows for fault in faults))


def reasons_without_fault(mechanism: str) -> tuple[Outside, ...]:
    """Why some mistakes of a class have no fault, each reason once."""
    return tuple(dict.fromkeys(reason for reason in BUGS[mechanism].values() if isinstance(reason, Outside)))


_OF_KEYS_AND_ROWS = (
    SizeThread("flashinfer-ai/flashinfer/pull/5090", "S no multiple of 64: what is filled in counts with logit 0",
            "size_keys_padding_counted"),
    SizeThread("NVIDIA/TensorRT-LLM/pull/18174", "S no multiple of 128: padded keys of zeros are not masked",
            "size_keys_padding_counted"),
    SizeThread("pytorch/pytorch/pull/160861", "S no multiple of the block of 128, paged: no mask past the last key",
            "size_keys_padding_counted"),
    SizeThread("tenstorrent/tt-metal/issues/54833",
               "S no multiple of 32 with a mask: its padded columns are 0, so seen", "size_keys_padding_counted"),
    SizeThread("pytorch/pytorch/pull/169222", "T up to 8, S no multiple of 32: threads read on past the last key",
            "size_tail_of_next_head"),
    SizeThread("pytorch/pytorch/issues/133717", "T = 1, S no multiple of the block: reads past the end, NaN",
                 "size_tail_of_next_head size_decoding_next_head", is_told=False),
    SizeThread("pytorch/pytorch/issues/159247", "S no multiple of the block of 128",
                 "size_keys_tail_lost size_keys_padding_counted", is_told=False),
    SizeThread("NVIDIA/TensorRT/issues/2541", "T = 1, S = 1500 where the kernel has room for 128",
                 "size_keys_beyond_lost size_decoding_keys_lost", is_told=False),
    SizeThread("Tlntin/trt2023/issues/1", "S > 128 in cross-attention", "size_keys_beyond_lost", is_told=False),
    SizeThread("pytorch/pytorch/issues/162588", "S > 65536 with a mask: a number of 16 bits, it seems",
            "size_keys_number_wraps size_mask_column_wraps"),
    SizeThread("thu-ml/SageAttention/issues/386", "long rows of strided inputs: a row's offset in 32 bits wraps",
            "size_rows_number_wraps"),
    SizeThread("thu-ml/SageAttention/issues/26", "S other than T", "size_keys_beyond_queries", is_told=False),
    SizeThread("jax-ml/jax/issues/24491", "S other than T",
               "size_keys_beyond_queries size_rows_beyond_keys", is_told=False),
    SizeThread("ml-explore/mlx/issues/3897",
               "D = 64 and 128, not 96, with a mask: sums of reduced width", "size_sum_in_half"),
    SizeThread("tenstorrent/tt-metal/pull/13997",
               "T = 1 against 128K keys: the accumulator's error", "size_sum_in_half"),
)

_OF_SPLITS = (
    SizeThread("ml-explore/mlx/issues/4022", "T = 1, S >= 1024, grouped heads: the kernel in two passes",
                 "size_decoding_next_head size_decoding_splits", is_told=False),
    SizeThread("ROCm/vllm/pull/22", "T = 1, S > 16384: the reducing kernel has room for no more",
            "size_decoding_keys_lost"),
    SizeThread("vllm-project/flash-attention/pull/176", "B > 1, split keys: the combining kernel's batch stride is 0",
            "size_decoding_rows_unwritten"),
    SizeThread("pytorch/pytorch/issues/194167", "B > 1, split keys: rows of all but the first sequence are not written",
            "size_decoding_rows_unwritten"),
    SizeThread("intel/llm-scaler/pull/368", "S > 1024, B > 1: the last phase reads without the batch offset",
            "size_decoding_batch_folded"),
)

_OF_KEYWORDS = (
    SizeThread("vllm-project/vllm-ascend/issues/15503", "T = 1, S > 512 with a mask: it is ignored past column 512",
            "size_mask_dropped_past"),
    SizeThread("tenstorrent/tt-metal/issues/32502", "T or S no multiple of 32 with a mask",
                 "size_mask_stride_padded size_mask_dropped_in_tail", is_told=False),
    SizeThread("microsoft/onnxruntime/pull/14517", "T > 32 with a relative position bias",
               "size_bias_row_wraps", is_told=False),
    SizeThread("NVIDIA/TensorRT-LLM/pull/1076", "T = S = 32768 with a relative bias: its offset may overflow",
            "size_bias_row_wraps"),
    SizeThread("pytorch/pytorch/issues/127055", "S > 512 with a mask: rows whose first block is hidden are NaN",
            "blocks_hidden_first_nan"),
    SizeThread("bledden/triton-msl/pull/7", "S a multiple of the tile: the causal mask is dropped",
            "size_causal_dropped_aligned"),
    SizeThread("sgl-project/sglang/pull/22434", "causal, S > 4096: a block all in the future of a tile's first rows",
            "size_causal_future_block_nan"),
    SizeThread("NVIDIA/cutlass/pull/2480", "causal, T no multiple of the tile: too few tiles of keys, by a review",
            "size_causal_tail_short"),
)

_OF_WIDTHS_AND_GRIDS = (
    SizeThread("triton-lang/triton/issues/621", "D = 128: the first 64 features only", "size_width_beyond_ignored"),
    SizeThread("66RING/tiny-flash-attention/issues/12", "D = 63, or S no power of two: tiles are loaded without a mask",
            "size_width_padding_read"),
    SizeThread("mni-ml/framework/pull/38", "Dv > 32: the launch has 32 lanes, the other columns stay 0",
            "size_columns_beyond_zero"),
    SizeThread("flashinfer-ai/flashinfer/issues/1993", "D = 256", "size_width_second_tile_twice", is_told=False),
    SizeThread("pytorch/pytorch/pull/177985", "H > 65535: beyond the grid", "size_heads_beyond_zero"),
    SizeThread("NVIDIA/FasterTransformer/pull/524", "B·H·T·S > 2^31: a slice's offset in 32 bits", "size_grid_wraps"),
    SizeThread("fla-org/flash-linear-attention/issues/1080",
               "B·T·H·D > 2^31: the last batch entry's offset wraps", "size_batch_keys_of_first"),
    SizeThread("HazyResearch/HipKittens/pull/22", "G other than Hkv: heads collide", "size_groups_dealt"),
    SizeThread("mlc-ai/mlc-llm/pull/2543", "G = 6", "size_groups_rounded_down size_groups_rounded_up", is_told=False),
    SizeThread("apache/tvm/pull/17074", "G = 6", "size_groups_rounded_down size_groups_rounded_up", is_told=False),
)

_LEFT_OUT = (
    SizeThread("pytorch/pytorch/issues/142228", "B or H > 65535", Outside.REFUSAL),
    SizeThread("microsoft/onnxruntime/issues/28357", "Dv other than D", Outside.REFUSAL),
    SizeThread("ggml-org/llama.cpp/issues/7343", "Dv other than D", Outside.REFUSAL),
    SizeThread("mlc-ai/mlc-llm/pull/1889", "D no multiple of 32", Outside.REFUSAL),
    SizeThread("lucidrains/flash-attention-jax/issues/14", "T > 1024, no multiple of 1024", Outside.REFUSAL),
    SizeThread("pytorch/xla/pull/8671", "S no multiple of 512", Outside.REFUSAL),
    SizeThread("facebookresearch/xformers/issues/813", "S no multiple of 8 with a bias", Outside.REFUSAL),
    SizeThread("pytorch/pytorch/issues/151359", "T = 1, G = 6", Outside.REFUSAL),
    SizeThread("fla-org/flash-linear-attention/issues/1029", "H no multiple of Hkv", Outside.REFUSAL),
    SizeThread("NVIDIA/cutlass/issues/2336", "causal, T other than S", Outside.CONVENTION),
    SizeThread("ml-explore/mlx/issues/2835", "causal, T other than S", Outside.CONVENTION),
    SizeThread("gittensor-ai-lab/sparkinfer/pull/4", "causal, T other than S", Outside.CONVENTION),
    SizeThread("pytorch/pytorch/issues/153799", "S no multiple of 128", Outside.BACKWARD),
    SizeThread("amorehead/jvp_flash_attention/issues/13", "S no multiple of 32", Outside.BACKWARD),
    SizeThread("PriorLabs/TabPFN/pull/1184", "B·H·T·D > 2^31", Outside.BACKWARD),
    SizeThread("flashinfer-ai/flashinfer/issues/4347", "pages of more than 128 keys", Outside.CACHE),
    SizeThread("meta-pytorch/attention-gym/issues/50", "T = S = 137: the last 9 rows differ", Outside.UNTOLD),
    SizeThread("Dao-AILab/flash-attention/issues/47", "S = 350000: other results with another B", Outside.UNTOLD),
)

THREADS: tuple[SizeThread, ...] = tuple(sorted(
    (*_OF_KEYS_AND_ROWS, *_OF_SPLITS, *_OF_KEYWORDS, *_OF_WIDTHS_AND_GRIDS, *_LEFT_OUT,
     *of_aspects(lambda aspect: aspect.threads)),
    key=lambda thread: isinstance(thread.faults, Outside)))
"""Every thread once, those that have a fault first."""


def _first_links() -> Mapping[str, str]:
    """By fault, the first thread that tells this very mistake."""
    links: dict[str, str] = {}
    rows = [row for bugs in BUGS.values() for row in bugs.items()]
    rows += [(thread.link, thread.faults) for thread in THREADS if thread.is_told]
    for link, faults in rows:
        for fault in () if isinstance(faults, Outside) else faults:
            links.setdefault(fault, link)
    return links


_LINKS = _first_links()


def link_of(fault: str) -> str:
    """The first thread that tells this very mistake; "" if none does."""
    return _LINKS.get(fault, "")


def size_threads() -> str:
    """The threads of mistakes at certain sizes, as a table in Markdown."""
    return "\n".join(["| thread | at which sizes | faults |", "|---|---|---|", *map(_row, THREADS)])


def _row(thread: SizeThread) -> str:
    *_, library, _, number = thread.link.split("/")
    return f"| [{library} {number}]({thread.link}) | {thread.sizes} | {_faults(thread)} |"


def _faults(thread: SizeThread) -> str:
    if isinstance(thread.faults, Outside):
        return f"none: {thread.faults.value}"
    named = ", ".join(f"`{name}`" for name in thread.faults)
    return named if thread.is_told else f"{named} (the thread tells the sizes alone)"


def family_table() -> str:
    """The families of faults as a table in Markdown, with what seed 0 draws."""
    return "\n".join(["| family | what goes wrong | seed 0: where |", "|---|---|---|", *_family_rows()])


def _family_rows() -> Iterator[str]:
    for family in ALL_FAMILIES:
        yield f"| `{family.name}` | {family.mechanism} | {reach_of(family.plant(0), family.needs)} |"
