"""memory-efficient-attention-pytorch in float16: a bucket's values are added up before they are divided, and overflow.

Even a bucket whose keys have no weight beside those of another makes the output NaN then.
"""

import sys

import torch
from memory_efficient_attention_pytorch.memory_efficient_attention import attention, memory_efficient_attention

query = torch.ones(1, 1, 1, 1).half()
key, value = torch.zeros(1, 1, 32, 1).half(), torch.full((1, 1, 32, 1), 5000.0).half()
key[..., :16, :], value[..., :16, :] = 100, 3  # the first 16 keys have all the weight
answers = [attention(query, key, value).item(), memory_efficient_attention(query, key, value, k_bucket_size=16).item()]
print("16 keys of logit 100 and value 3, 16 of logit 0 and value 5000: attention {}, in buckets of 16 {}".format(*answers))
sys.exit(int(answers[0] == 3 and answers[1] != answers[1]))
