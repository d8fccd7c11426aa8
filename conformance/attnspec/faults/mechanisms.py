"""What real attentions got wrong, by class of mechanism, and the faults that make the same mistake, or why none does.

The threads are public; each is the report or the repair of one mistake in one library.
"""

from __future__ import annotations

from collections.abc import Mapping

from attnspec.faults.mistakes import all_mistakes
from attnspec.faults.outside import Outside

OF_MADE: Mapping[str, Mapping[str, str | Outside]] = {"compiled, exported, mapped or recomputed": {
    "pytorch/pytorch/issues/148545": "compiled_for_first_shape",
    "ccdv-ai/convert_checkpoint_to_lsg/issues/15": "exported_branch_taken_once",
    "pytorch/pytorch/issues/151561": "mapped_mask_of_first",
    "allenai/OLMo-core/pull/828": "recomputed_dropout_drawn_anew",
}}
"""By class of mechanism, as in `mechanisms`."""


Bugs = Mapping[str, str | Outside]

_GITHUB = "https://github.com/"

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
        "huggingface/transformers/pull/35691": "window_ignored layer_window_ignored",
        "axolotl-ai-cloud/axolotl/pull/3796": "mask_ignored",
        "areal-project/AReaL/issues/1442": "packed_together mask_ignored",
        "huggingface/nanoVLM/pull/204": "packed_together segments_ignored mask_ignored",
        "DeepOpt-com/WrinkleFree-Monorepo/issues/53": "mask_ignored",
        "iCog-Labs-Dev/PC-Transformers/issues/97": "layer_causal_ignored",
        "torch-spyre/torch-spyre/issues/4526": "switch_mask_dropped",
        "openvinotoolkit/openvino/pull/31106": "causal_ignored",
        "OpenNMT/OpenNMT-py/pull/2589": "mask_as_lengths",
        "jax-ml/jax/issues/32300": "window_ignored_when_alone",
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
        "huggingface/transformers/issues/39408": "window_left_one_wider window_right_one_wider",
        "huggingface/transformers/pull/26792": "window_left_one_wider layer_window_one_wider mask_one_more",
        "huggingface/transformers/issues/29176": "window_left_one_narrower switch_window_dropped",
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
    mechanism: {_GITHUB + thread: made if isinstance(made, Outside) else tuple(made.split())
                for table in _TABLES for thread, made in table.get(mechanism, {}).items()}
    for mechanism in {mechanism: None for table in _TABLES for mechanism in table}}
"""By class of mechanism: the thread of each real mistake, and the faults that make it, or why none does."""


def faults_of(mechanism: str) -> tuple[str, ...]:
    """The faults that make a class of mistakes, each once."""
    made = (faults for faults in BUGS[mechanism].values() if not isinstance(faults, Outside))
    return tuple(dict.fromkeys(fault for faults in made for fault in faults))


def outside(mechanism: str) -> tuple[Outside, ...]:
    """Why some mistakes of a class have no fault, each reason once."""
    return tuple(dict.fromkeys(made for made in BUGS[mechanism].values() if isinstance(made, Outside)))
