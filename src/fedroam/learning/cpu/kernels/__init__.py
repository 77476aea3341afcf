"""Convolutions and what follows them, and the exchange, compiled for this machine and for the sizes at hand.

oneDNN works on channels side by side, in sixteens; the papers' networks have 1, 3, 10 or 20. Here samples and pixels
lie side by side, and norm, pool and ReLU are one pass over memory. Between wide layers, and in networks of others,
convolutions are computed by tiles of pixels (`tiled`), which takes fewer multiplications.
"""

from pathlib import Path

from fedroam.learning.cpu.kernels.between import ContrastTerm as ContrastTerm
from fedroam.learning.cpu.kernels.between import FeatureKernels as FeatureKernels
from fedroam.learning.cpu.kernels.between import Gates as Gates
from fedroam.learning.cpu.kernels.between import MemoryAhead as MemoryAhead
from fedroam.learning.cpu.kernels.between import MemoryBack as MemoryBack
from fedroam.learning.cpu.kernels.between import PrototypeTerm as PrototypeTerm
from fedroam.learning.cpu.kernels.between import Step as Step
from fedroam.learning.cpu.kernels.between import ValveAhead as ValveAhead
from fedroam.learning.cpu.kernels.between import ValveBack as ValveBack
from fedroam.learning.cpu.kernels.between import feature_kernels as feature_kernels
from fedroam.learning.cpu.kernels.blocks import leading as leading
from fedroam.learning.cpu.kernels.blocks import stages_of as stages_of
from fedroam.learning.cpu.kernels.calls import Call as Call
from fedroam.learning.cpu.kernels.calls import Calls as Calls
from fedroam.learning.cpu.kernels.calls import Pattern as Pattern
from fedroam.learning.cpu.kernels.calls import run as run
from fedroam.learning.cpu.kernels.conv1d_maxpool import Conv1dMaxPool as Conv1dMaxPool
from fedroam.learning.cpu.kernels.conv1d_maxpool import Conv1dMaxPoolGradient as Conv1dMaxPoolGradient
from fedroam.learning.cpu.kernels.conv1d_maxpool import Conv1dSizes as Conv1dSizes
from fedroam.learning.cpu.kernels.conv_stack import ConvStack as ConvStack
from fedroam.learning.cpu.kernels.convolution import Images as Images
from fedroam.learning.cpu.kernels.convolution import Weights as Weights
from fedroam.learning.cpu.kernels.dense import DenseGradient as DenseGradient
from fedroam.learning.cpu.kernels.dense import DenseLayer as DenseLayer
from fedroam.learning.cpu.kernels.dense import DenseRows as DenseRows
from fedroam.learning.cpu.kernels.dense import DenseScores as DenseScores
from fedroam.learning.cpu.kernels.dense import DenseStack as DenseStack
from fedroam.learning.cpu.kernels.dense import DenseTraining as DenseTraining
from fedroam.learning.cpu.kernels.descent import Descent as Descent
from fedroam.learning.cpu.kernels.row_sums import RowDistances as RowDistances
from fedroam.learning.cpu.kernels.row_sums import RowProducts as RowProducts
from fedroam.learning.cpu.kernels.row_sums import RowSums as RowSums
from fedroam.learning.cpu.kernels.row_sums import RowTotal as RowTotal
from fedroam.learning.cpu.kernels.tiled import ChannelsConvolution as ChannelsConvolution
from fedroam.learning.cpu.kernels.tiled import TiledConvolution as TiledConvolution
from fedroam.learning.cpu.kernels.tiled import TiledWeightGradient as TiledWeightGradient
from fedroam.native import sources

SOURCES = sources(Path(__file__).parent)
