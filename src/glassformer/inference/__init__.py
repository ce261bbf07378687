"""How decoding is made fast: packed and quantized linears, fused blocks, Triton kernels, CUDA graphs; all optional."""
