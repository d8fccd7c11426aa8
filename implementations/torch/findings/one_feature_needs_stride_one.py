"""PyTorch: the forced CPU flash kernel refuses inputs of one feature if that axis, of one entry, has another stride."""

import sys
import warnings

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

warnings.simplefilter("ignore")
refused = []
for stride in (1, 2):
    arrays = [torch.empty_strided((1, 1, 3, 1), (6, 6, 2, stride)).fill_(1) for _ in range(3)]
    try:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            print(f"stride {stride}: {scaled_dot_product_attention(*arrays).flatten().tolist()}")
    except RuntimeError as error:
        refused.append(stride)
        print(f"stride {stride}: {error}")
sys.exit(int(refused == [2]))
