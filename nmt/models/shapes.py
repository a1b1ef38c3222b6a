"""Tensor types that many methods share. docs/design.md explains the letters of shapes."""

from jaxtyping import Bool, Float
from torch import Tensor

Mask = Bool[Tensor, "B S"]  # the source mask: False at padding
TargetMask = Bool[Tensor, "B T"]  # the target mask: False at padding

Annotations = Float[Tensor, "B S M"]
Queries = Float[Tensor, "B Q H"]
Keys = Float[Tensor, "B S K"]

Values = Float[Tensor, "B S C"]  # what attention sums: the annotations or a linear map of them
Scores = Float[Tensor, "B Q S"]  # scores or attention weights of Q queries over S source positions

HeadScores = Float[Tensor, "B N Q S"]
"""Scores or attention weights of each of N heads; N = 1 for most attention types."""

Contexts = Float[Tensor, "B Q M"]
