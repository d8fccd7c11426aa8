"""The attention classes of installed libraries that `init_libraries.py` tries, and what each of them is.

`truth` says what a right verdict is; it was read from the library's source and documentation, not from attnspec.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Truth(Enum):
    """What a class computes, by its source and documentation."""

    ATTENTION = "attention"
    INSIDE = "attention, with something of its own inside"
    OTHER = "no attention by the definition"


@dataclass(frozen=True, slots=True)
class LibraryClass:
    """One class. distribution: where its version stands.  says: what it has inside, or what it computes instead.

    fails: why a verdict "does not conform" is true, where it was proven without attnspec; empty where it would be
    false.
    """

    target: str
    distribution: str
    truth: Truth = Truth.ATTENTION
    says: str = ""
    fails: str = ""


_TF = "transformers.models"


def _all(distribution: str, truth: Truth, *targets: str | tuple[str, ...]) -> tuple[LibraryClass, ...]:
    """Classes of one library: each by its path, or with what it says, and with why it fails."""
    rows = [(each,) if isinstance(each, str) else each for each in targets]
    return tuple(LibraryClass(target, distribution, truth, *more) for target, *more in rows)


_CAUSAL_DROPPED = "made causal, it sees later keys where a mask is given; its documentation does not say so"
_UNSCALED = "the logits are not scaled; its weights are made for that"


CLASSES: tuple[LibraryClass, ...] = (
    *_all("transformers", Truth.ATTENTION,
          f"{_TF}.bert.modeling_bert:BertSelfAttention",
          f"{_TF}.bert.modeling_bert:BertCrossAttention",
          f"{_TF}.roberta.modeling_roberta:RobertaSelfAttention",
          f"{_TF}.electra.modeling_electra:ElectraSelfAttention",
          f"{_TF}.distilbert.modeling_distilbert:DistilBertSelfAttention",
          f"{_TF}.gpt2.modeling_gpt2:GPT2Attention",
          (f"{_TF}.gpt_neo.modeling_gpt_neo:GPTNeoSelfAttention", "scale 1", _UNSCALED),
          f"{_TF}.vit.modeling_vit:ViTAttention",
          f"{_TF}.clip.modeling_clip:CLIPAttention",
          f"{_TF}.siglip.modeling_siglip:SiglipAttention",
          f"{_TF}.dinov2.modeling_dinov2:Dinov2Attention",
          f"{_TF}.blip.modeling_blip:BlipAttention",
          f"{_TF}.bart.modeling_bart:BartAttention",
          f"{_TF}.whisper.modeling_whisper:WhisperAttention",
          f"{_TF}.wav2vec2.modeling_wav2vec2:Wav2Vec2Attention",
          f"{_TF}.opt.modeling_opt:OPTAttention",
          f"{_TF}.detr.modeling_detr:DetrSelfAttention",
          f"{_TF}.detr.modeling_detr:DetrCrossAttention",
          f"{_TF}.sam.modeling_sam:SamAttention"),
    *_all("transformers", Truth.INSIDE,
          (f"{_TF}.llama.modeling_llama:LlamaAttention", "rotary"),
          (f"{_TF}.mistral.modeling_mistral:MistralAttention", "rotary"),
          (f"{_TF}.qwen3.modeling_qwen3:Qwen3Attention", "rotary, norms"),
          (f"{_TF}.gemma2.modeling_gemma2:Gemma2Attention", "rotary, softcap, a window"),
          (f"{_TF}.phi3.modeling_phi3:Phi3Attention", "rotary"),
          (f"{_TF}.gpt_oss.modeling_gpt_oss:GptOssAttention", "rotary, sinks"),
          (f"{_TF}.gpt_neox.modeling_gpt_neox:GPTNeoXAttention", "rotary of a part"),
          (f"{_TF}.gptj.modeling_gptj:GPTJAttention", "rotary"),
          (f"{_TF}.bloom.modeling_bloom:BloomAttention", "slopes, a residual"),
          (f"{_TF}.falcon.modeling_falcon:FalconAttention", "rotary, one key head"),
          (f"{_TF}.mpt.modeling_mpt:MptAttention", "slopes that are handed over"),
          (f"{_TF}.t5.modeling_t5:T5Attention", "a bias by distance, scale 1", _UNSCALED),
          (f"{_TF}.swin.modeling_swin:SwinAttention", "windows, a bias by place"),
          (f"{_TF}.beit.modeling_beit:BeitAttention", "a bias by place"),
          (f"{_TF}.segformer.modeling_segformer:SegformerAttention", "keys that a convolution made fewer"),
          (f"{_TF}.deberta_v2.modeling_deberta_v2:DisentangledSelfAttention", "scores of place, off by default")),
    *_all("transformers", Truth.OTHER,
          (f"{_TF}.deepseek_v3.modeling_deepseek_v3:DeepseekV3Attention", "latent keys")),
    *_all("timm", Truth.ATTENTION,
          "timm.layers.attention:Attention",
          "timm.models.volo:Attention",
          "timm.models.visformer:Attention",
          ("timm.models.nest:Attention", "heads interleave before the output projection",
           "the output projection reads feature d of head h at d·H + h, where side by side is h·D + d"),
          "timm.layers.attention2d:Attention2d",
          "timm.models.crossvit:CrossAttention",
          "timm.models.cait:ClassAttn",
          "timm.models.pvt_v2:Attention",
          "timm.models.davit:WindowAttention"),
    *_all("timm", Truth.INSIDE,
          ("timm.layers.attention:AttentionRope", "rotary"),
          ("timm.models.eva:EvaAttention", "rotary"),
          ("timm.models.swin_transformer:WindowAttention", "a bias by place"),
          ("timm.models.beit:Attention", "a bias by place"),
          ("timm.models.efficientformer:Attention", "a bias by place"),
          ("timm.models.twins:GlobalSubSampleAttn", "keys that a convolution made fewer")),
    *_all("timm", Truth.OTHER,
          ("timm.models.davit:ChannelAttention", "channels attend to channels"),
          ("timm.models.cait:TalkingHeadAttn", "logits and weights are mixed over heads"),
          ("timm.layers.diff_attention:DiffAttention", "the difference of two softmaxes")),
    *_all("diffusers", Truth.ATTENTION,
          ("diffusers.models.attention_processor:Attention", "",
           "made causal, it sees later keys: its default processor passes is_causal=False"),
          ("diffusers.models.transformers.transformer_flux:FluxAttention", "two streams; norms",
           "with one stream alone its to_out, which its default makes, is not used")),
    *_all("x-transformers", Truth.ATTENTION,
          "x_transformers.x_transformers:Attention"),
    *_all("vit-pytorch", Truth.ATTENTION,
          ("vit_pytorch.vit:Attention", "no output projection where one head is as wide as the model"),
          "vit_pytorch.simple_vit:Attention",
          "vit_pytorch.cross_vit:Attention",
          "vit_pytorch.na_vit:Attention",
          ("vit_pytorch.pit:Attention", "no output projection where one head is as wide as the model")),
    *_all("vit-pytorch", Truth.OTHER,
          ("vit_pytorch.cait:Attention", "logits and weights are mixed over heads"),
          ("vit_pytorch.deepvit:Attention", "weights are mixed over heads")),
    *_all("flax", Truth.ATTENTION,
          "flax.nnx:MultiHeadAttention",
          "flax.linen:MultiHeadDotProductAttention",
          "flax.linen:SelfAttention"),
    *_all("attnax", Truth.ATTENTION, "attnax.attention:MultiHeadAttention"),
    *_all("attnhut", Truth.ATTENTION,
          ("attnhut.gqa:GroupedQueryAttention", "", _CAUSAL_DROPPED),
          ("attnhut.standard:StandardAttention", "", _CAUSAL_DROPPED)),
    *_all("keras", Truth.ATTENTION,
          "keras.layers:MultiHeadAttention",
          "keras.layers:GroupQueryAttention"),
    *_all("keras-hub", Truth.INSIDE,
          ("keras_hub.src.models.llama.llama_attention:LlamaAttention", "rotary"),
          ("keras_hub.src.models.mistral.mistral_attention:CachedMistralAttention", "rotary"),
          ("keras_hub.src.models.bloom.bloom_attention:BloomAttention", "slopes")),
    *_all("torchtune", Truth.ATTENTION, "torchtune.modules:MultiHeadAttention"),
    *_all("openai-whisper", Truth.ATTENTION,
          ("whisper.model:MultiHeadAttention", "a mask is a causal flag",
           "with its mask one query sees all keys, where two see those up to the upper left diagonal")),
    *_all("open_clip_torch", Truth.ATTENTION, "open_clip.transformer:Attention"),
    *_all("fair-esm", Truth.ATTENTION, "esm.multihead_attention:MultiheadAttention"),
    *_all("segment-anything", Truth.ATTENTION, "segment_anything.modeling.transformer:Attention"),
    *_all("segment-anything", Truth.INSIDE,
          ("segment_anything.modeling.image_encoder:Attention", "images, a bias by place")),
    *_all("monai", Truth.ATTENTION,
          "monai.networks.blocks.selfattention:SABlock",
          "monai.networks.blocks.crossattention:CrossAttentionBlock"),
    *_all("torchscale", Truth.ATTENTION, "torchscale.component.multihead_attention:MultiheadAttention"),
    *_all("speechbrain", Truth.ATTENTION, "speechbrain.nnet.attention:MultiheadAttention"),
    *_all("litgpt", Truth.INSIDE, ("litgpt.model:CausalSelfAttention", "rotary")),
    *_all("perceiver-pytorch", Truth.ATTENTION, "perceiver_pytorch.perceiver_pytorch:Attention"),
    *_all("axial-attention", Truth.ATTENTION, "axial_attention.axial_attention:SelfAttention"),
    *_all("labml-nn", Truth.ATTENTION, "labml_nn.transformers.mha:MultiHeadAttention"),
    *_all("self-attention-cv", Truth.ATTENTION,
          "self_attention_cv.transformer_vanilla.mhsa:MultiHeadSelfAttention",
          "self_attention_cv.transformer_vanilla.self_attention:SelfAttention"),
    *_all("conformer", Truth.INSIDE, ("conformer.conformer:Attention", "scores of content and place")),
    *_all("performer-pytorch", Truth.OTHER, ("performer_pytorch:SelfAttention", "random features")),
    *_all("linformer", Truth.OTHER, ("linformer:LinformerSelfAttention", "keys are projected along their length")),
    *_all("nystrom-attention", Truth.OTHER, ("nystrom_attention:NystromAttention", "landmarks")),
    *_all("torch-geometric", Truth.OTHER,
          ("torch_geometric.nn.attention:SGFormerAttention", "linear attention")),
)
"""All that are tried, the libraries together."""
