"""Convolutions and what follows them, compiled for this machine and for the sizes at hand.

oneDNN works on channels side by side, in sixteens; the papers' networks have 1, 3, 10 or 20. Here samples and pixels
lie side by side, and norm, pool and ReLU are one pass over memory.
"""

from fedroam.learning.cpu.kernels.blocks import leading, stages_of
from fedroam.learning.cpu.kernels.conv1d_maxpool import Conv1dMaxPool, Conv1dMaxPoolGradient, Conv1dSizes
from fedroam.learning.cpu.kernels.conv_stack import ConvStack
from fedroam.learning.cpu.kernels.target import Target, kernel, target

__all__ = [
    "Conv1dMaxPool",
    "Conv1dMaxPoolGradient",
    "Conv1dSizes",
    "ConvStack",
    "Target",
    "kernel",
    "leading",
    "stages_of",
    "target",
]
