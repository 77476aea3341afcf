"""The fast engine for processors: workers, hand-written gradients, and kernels compiled for this machine."""
