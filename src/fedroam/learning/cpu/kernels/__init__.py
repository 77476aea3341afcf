"""Convolutions and what follows them, compiled for this machine and for the sizes at hand.

oneDNN works on channels side by side, in sixteens; the papers' networks have 1, 3, 10 or 20. Here samples and pixels
lie side by side, and norm, pool and ReLU are one pass over memory.
"""

from fedroam.learning.cpu.kernels.blocks import leading, stages_of
from fedroam.learning.cpu.kernels.conv1d_maxpool import PeakGradients, Peaks, Series
from fedroam.learning.cpu.kernels.conv_stack import Front
from fedroam.learning.cpu.kernels.target import Machine, kernel, machine

__all__ = [
    "Front",
    "Machine",
    "PeakGradients",
    "Peaks",
    "Series",
    "kernel",
    "leading",
    "machine",
    "stages_of",
]
