"""The fast engine for processors: workers, hand-written gradients, and kernels compiled for this machine."""

from fedroam.learning.cpu import engine as engine
