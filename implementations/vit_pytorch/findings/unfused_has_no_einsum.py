"""vit-pytorch: simple_flash_attn_vit.Attention(use_flash=False) raises, because its file does not import einsum."""

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import torch

spec: ModuleSpec | None = importlib.util.find_spec("vit_pytorch")
assert spec is not None
assert spec.submodule_search_locations is not None
path = f"{spec.submodule_search_locations[0]}/simple_flash_attn_vit.py"  # alone: the package imports torchvision
alone = importlib.util.spec_from_file_location("simple_flash_attn_vit", path)
assert alone is not None
assert alone.loader is not None
module: ModuleType = importlib.util.module_from_spec(alone)
alone.loader.exec_module(module)

x = torch.randn(1, 3, 16)
print("use_flash=True:", tuple(module.Attention(16, heads=2, dim_head=8, use_flash=True)(x).shape))
try:
    print("use_flash=False:", tuple(module.Attention(16, heads=2, dim_head=8, use_flash=False)(x).shape))
except NameError as raised:
    print("use_flash=False:", raised)
    sys.exit(1)
sys.exit(0)
