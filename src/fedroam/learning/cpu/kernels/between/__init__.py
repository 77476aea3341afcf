"""What objectives make of the features between an extractor and a head: terms, and what becomes of their gradients."""

from fedroam.learning.cpu.kernels.between.contrast import ContrastTerm as ContrastTerm
from fedroam.learning.cpu.kernels.between.feature_kernels import FeatureKernels as FeatureKernels
from fedroam.learning.cpu.kernels.between.feature_kernels import Step as Step
from fedroam.learning.cpu.kernels.between.feature_kernels import feature_kernels as feature_kernels
from fedroam.learning.cpu.kernels.between.memory import MemoryAhead as MemoryAhead
from fedroam.learning.cpu.kernels.between.memory import MemoryBack as MemoryBack
from fedroam.learning.cpu.kernels.between.prototypes import PrototypeTerm as PrototypeTerm
from fedroam.learning.cpu.kernels.between.valve import Gates as Gates
from fedroam.learning.cpu.kernels.between.valve import ValveAhead as ValveAhead
from fedroam.learning.cpu.kernels.between.valve import ValveBack as ValveBack
