"""Search over any model: beams, sampling, constraints, forced decoding."""
