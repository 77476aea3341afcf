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

from fedroam.models.convolutional import CNN1d, Conv5, LeNetGN, MnistCNN
from fedroam.models.dense import MLP, SoftmaxRegression
from fedroam.models.dropout import Dropout, draws, noise, own_dropout
from fedroam.models.network import ModelBuilder, Network, split
from fedroam.models.resnet import ResNet18, ResNet50
from fedroam.models.torch_module import TorchModule
from fedroam.models.weights import Loaded, load_weights

__all__ = [
    "MLP",
    "CNN1d",
    "Conv5",
    "Dropout",
    "LeNetGN",
    "Loaded",
    "MnistCNN",
    "ModelBuilder",
    "Network",
    "ResNet18",
    "ResNet50",
    "SoftmaxRegression",
    "TorchModule",
    "draws",
    "load_weights",
    "noise",
    "own_dropout",
    "split",
]
