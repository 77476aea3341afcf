"""Linear layers with ReLU between: their training, and how they do on samples."""

from fedroam.learning.cpu.kernels.dense.forward import DenseLayer as DenseLayer
from fedroam.learning.cpu.kernels.dense.scores import DenseScores as DenseScores
from fedroam.learning.cpu.kernels.dense.stack import DenseStack as DenseStack
from fedroam.learning.cpu.kernels.dense.training import DenseGradient as DenseGradient
from fedroam.learning.cpu.kernels.dense.training import DenseRows as DenseRows
from fedroam.learning.cpu.kernels.dense.training import DenseTraining as DenseTraining
