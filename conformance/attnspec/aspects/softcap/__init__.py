"""The softcap: scaled dot products x become c·tanh(x / c), before bias and mask."""
