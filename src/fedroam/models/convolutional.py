"""The small convolutional networks of the papers.

Where a paper says ReLU, then max-pool, the pool stands first here. The maximum commutes with every monotone
function, max(relu(a), relu(b)) = relu(max(a, b)), so outputs and gradients are the same, and the ReLU then
works on a quarter of the values. Biases and norms stay before the pool, where the papers have them.
"""

from __future__ import annotations

from torch import nn

from fedroam.components import Part, field, register
from fedroam.errors import InputError
from fedroam.models.dropout import Dropout
from fedroam.models.network import INIT, Init, Network, check, image_shape, initialise


@register("model", "mnist_cnn", "Reza et al. (DAM, DCM): two convolutions, two fully connected layers")
class MnistCNN(Part):
    """Convolutions 10 and 20 (5x5, no padding), each with max-pool 2 and ReLU; fc 50; output.

    21,840 parameters for MNIST. The paper gives the kinds of layers only; the widths are those of the common
    MNIST example network.
    """

    init: Init = field("default", INIT)

    def build(self, shape: tuple[int, ...], classes: int) -> Network:
        """A network for images of at least 16x16 pixels; 50 features."""
        channels, height, width = image_shape(self.kind, shape, classes, smallest=16)
        after = ((height - 4) // 2 - 4) // 2 * (((width - 4) // 2 - 4) // 2)
        extractor = nn.Sequential(
            *(nn.Conv2d(channels, 10, 5), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(20 * after, 50), nn.ReLU()),
        )
        return initialise(Network(extractor, nn.Linear(50, classes)), self.init)


@register("model", "lenet_gn", "de Heredia et al. (mobility in DFL), as in the authors' public code")
class LeNetGN(Part):
    """LeNet with GroupNorm: three same-size 5x5 convolutions 32, 32, 64, each with GroupNorm (2 groups),
    max-pool 2 and ReLU; linear output.

    89,834 parameters for CIFAR-10. GroupNorm: Wu & He, ECCV 2018.
    """

    init: Init = field("default", INIT)

    def build(self, shape: tuple[int, ...], classes: int) -> Network:
        """A network for images of at least 8x8 pixels; 64 features for each 8x8 block of pixels."""
        channels, height, width = image_shape(self.kind, shape, classes, smallest=8)
        layers: list[nn.Module] = []
        for inputs, outputs in ((channels, 32), (32, 32), (32, 64)):
            convolution = nn.Conv2d(inputs, outputs, 5, padding=2)
            layers += [convolution, nn.GroupNorm(2, outputs), nn.MaxPool2d(2), nn.ReLU()]
        head = nn.Linear(64 * (height // 8) * (width // 8), classes)
        return initialise(Network(nn.Sequential(*layers, nn.Flatten()), head), self.init)


@register("model", "conv5", "MOHAWK (hierarchical FL with mobile devices), as in the authors' public code")
class Conv5(Part):
    """Conv 32, max-pool; two blocks of conv 64, conv 64, max-pool; fc 512; output. ReLU after each layer.

    Convolutions are 3x3, keep the size and have no bias. 659,818 parameters for CIFAR-10, 659,242 for MNIST.
    Smaller images are padded with zeros to `pad_to`, equally on all sides (an odd pixel goes to the right and
    bottom), as the paper does with MNIST. The paper's code starts from init = "kaiming_normal".
    """

    pad_to: int = field(
        32, "least height and width; smaller images are zero-padded to it", unit="px", ge=8, le=512
    )
    init: Init = field("default", INIT)

    def build(self, shape: tuple[int, ...], classes: int) -> Network:
        """A network for images of any size; 512 features."""
        channels, height, width = image_shape(self.kind, shape, classes)
        more_y, more_x = max(self.pad_to - height, 0), max(self.pad_to - width, 0)
        layers: list[nn.Module] = []
        if more_y or more_x:
            left, top = more_x // 2, more_y // 2
            layers.append(nn.ZeroPad2d((left, more_x - left, top, more_y - top)))
        for inputs, outputs, pool in (
            *((channels, 32, True),),
            *((32, 64, False), (64, 64, True)),
            *((64, 64, False), (64, 64, True)),
        ):
            layers.append(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False))
            layers += [nn.MaxPool2d(2), nn.ReLU()] if pool else [nn.ReLU()]
        flat = 64 * ((height + more_y) // 8) * ((width + more_x) // 8)
        extractor = nn.Sequential(*layers, nn.Flatten(), nn.Linear(flat, 512), nn.ReLU())
        return initialise(Network(extractor, nn.Linear(512, classes)), self.init)


@register("model", "cnn1d", "MoCFL: two convolutions, global max-pool, dropout, one fully connected layer")
class CNN1d(Part):
    """The features as a sequence of one channel: convolutions 32 and 64 (width 3, no padding), global
    max-pool, ReLU, dropout; linear output.

    6,986 parameters for UNSW-NB15 (10 classes), whatever the number of features. The paper gives the kinds of
    layers only; widths and the dropout rate are our reading.
    """

    dropout: float = field(0.5, "probability that a feature is dropped in training", ge=0, lt=1)
    init: Init = field("default", INIT)

    def build(self, shape: tuple[int, ...], classes: int) -> Network:
        """A network for tables of at least 5 features; 64 features come out. Training draws (see `noise`)."""
        check(self.kind, shape, classes)
        if len(shape) != 1 or shape[0] < 5:
            raise InputError(f"model {self.kind!r}: input shape {shape}, allowed is (features,), at least 5")
        extractor = nn.Sequential(
            *(nn.Unflatten(1, (1, shape[0])), nn.Conv1d(1, 32, 3), nn.ReLU(), nn.Conv1d(32, 64, 3)),
            *(nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.ReLU(), Dropout(self.dropout)),
        )
        return initialise(Network(extractor, nn.Linear(64, classes)), self.init)
