"""Networks: the papers' small ones, ResNets, and any `torch.nn.Module` of the user's.

A model part has `build(shape, classes) -> torch.nn.Module`, where shape is that of one sample as networks see
it: (channels, height, width) or (features,). The network maps float32 samples [n, *shape] to logits
[n, classes]. Start values are drawn from torch's default generator; whoever builds lends one
(`fedroam.randomness.torch_default_stream`). A model of your own, in a file loaded with `--use my_model.py`:

    import math
    from torch import nn
    from fedroam.components import Part, field, register
    from fedroam.models import Network

    @register("model", "mine")
    class Mine(Part):
        "One wide hidden layer."
        width: int = field(256, "hidden units", gt=0)

        def build(self, shape, classes):
            extractor = nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), self.width), nn.ReLU())
            return Network(extractor, nn.Linear(self.width, classes))
"""

from fedroam.models.convolutional import CNN1d as CNN1d
from fedroam.models.convolutional import Conv5 as Conv5
from fedroam.models.convolutional import LeNetGN as LeNetGN
from fedroam.models.convolutional import MnistCNN as MnistCNN
from fedroam.models.dense import MLP as MLP
from fedroam.models.dense import SoftmaxRegression as SoftmaxRegression
from fedroam.models.dropout import Dropout as Dropout
from fedroam.models.dropout import draws as draws
from fedroam.models.dropout import noise as noise
from fedroam.models.dropout import own_dropout as own_dropout
from fedroam.models.network import ModelBuilder as ModelBuilder
from fedroam.models.network import Network as Network
from fedroam.models.network import as_batch as as_batch
from fedroam.models.network import split as split
from fedroam.models.resnet import ResNet18 as ResNet18
from fedroam.models.resnet import ResNet50 as ResNet50
from fedroam.models.torch_module import TorchModule as TorchModule
from fedroam.models.trial import one_sample_fails as one_sample_fails
from fedroam.models.trial import try_out as try_out
from fedroam.models.weights import Loaded as Loaded
from fedroam.models.weights import load_weights as load_weights
