"""Operations that have more than one body: plain torch, fused, C++, Triton."""
