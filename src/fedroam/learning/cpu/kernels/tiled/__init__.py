"""Convolutions by tiles of pixels (Winograd's algorithm), which take fewer multiplications than the sum itself.

Samples side by side in memory, as `convolution` has them, or channels, as libraries do.
"""

from fedroam.learning.cpu.kernels.tiled.by_channels import ChannelsConvolution as ChannelsConvolution
from fedroam.learning.cpu.kernels.tiled.by_channels import TiledConvolution as TiledConvolution
from fedroam.learning.cpu.kernels.tiled.by_channels import TiledWeightGradient as TiledWeightGradient
from fedroam.learning.cpu.kernels.tiled.by_samples import WinogradConvolution as WinogradConvolution
from fedroam.learning.cpu.kernels.tiled.by_samples import WinogradWeightGradient as WinogradWeightGradient
from fedroam.learning.cpu.kernels.tiled.by_samples import suits as suits
