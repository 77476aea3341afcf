"""What one call of kernels computes for a client or several: perceptrons, heads, scores, steps with features."""
