"""The registered networks: sizes, shapes, equivalences, and a contract that holds for every kind."""

import math
import textwrap

import pytest
import torch
from torch import nn

import fedroam.models
from fedroam import components
from fedroam.components import Part, field, register
from fedroam.errors import InputError
from fedroam.models import Network, as_batch, noise, split
from fedroam.randomness import torch_default_stream, torch_stream

MNIST, CIFAR, FLOWS = (1, 28, 28), (3, 32, 32), (196,)
POOLS = (nn.MaxPool2d, nn.AdaptiveMaxPool1d)
NEEDED = {"torch_module": {"target": f"{__name__}:Plain"}}  # kinds with fields that have no default


class Plain(nn.Module):
    """What the contract gives to torch_module: takes any shape."""

    def __init__(self, shape, classes):
        super().__init__()
        self.extractor = nn.Flatten()
        self.head = nn.Linear(math.prod(shape), classes)

    def forward(self, x):
        return self.head(self.extractor(x))


def build(kind, shape, classes=10, **fields):
    with torch_default_stream(0, "start"):
        return components.build("model", {"kind": kind, **fields}).build(shape, classes)


def size(module):
    return sum(p.numel() for p in module.parameters())


def samples(shape, n=4):
    return torch.randn(n, *shape, generator=torch_stream(1, "samples"))


@pytest.mark.parametrize(
    ("kind", "shape", "classes", "fields", "parameters"),
    [
        ("softmax_regression", MNIST, 10, {}, 7_850),
        ("mlp", MNIST, 10, {}, 50_890),
        ("mlp", FLOWS, 10, {"hidden": [32, 16]}, 196 * 32 + 32 + 32 * 16 + 16 + 16 * 10 + 10),
        ("mlp", FLOWS, 2, {"hidden": []}, 196 * 2 + 2),
        ("mnist_cnn", MNIST, 10, {}, 21_840),
        ("lenet_gn", CIFAR, 10, {}, 89_834),
        ("conv5", CIFAR, 10, {}, 659_818),
        ("conv5", (1, 32, 32), 10, {}, 659_242),
        ("conv5", MNIST, 10, {}, 659_242),
        ("cnn1d", FLOWS, 10, {}, 6_986),
        ("resnet18", CIFAR, 10, {}, 11_173_962),
        ("resnet18", CIFAR, 10, {"norm": "group"}, 11_173_962),
        ("resnet50", CIFAR, 10, {}, 23_520_842),
        ("resnet50", CIFAR, 10, {"norm": "group"}, 23_520_842),
    ],
)
def test_parameter_counts(kind, shape, classes, fields, parameters):
    assert size(build(kind, shape, classes, **fields)) == parameters


@pytest.mark.parametrize("shape", [MNIST, CIFAR, FLOWS], ids=str)
@pytest.mark.parametrize("kind", sorted(components.kinds("model")))
def test_every_kind_builds_and_learns_or_says_why_not(kind, shape):
    try:
        network = build(kind, shape, 7, **NEEDED.get(kind, {}))
    except InputError as refused:
        message = str(refused)
        network = None
    if network is None:
        assert kind in message
        assert str(shape) in message
        assert "allowed" in message
        assert "\n" not in message
        return
    x = samples(shape, 2)
    before = torch.get_rng_state()
    with noise(torch_stream(0, "dropout")):
        logits = network(x)
        nn.functional.cross_entropy(logits, torch.tensor([0, 6])).backward()
    assert logits.shape == (2, 7)
    assert torch.equal(before, torch.get_rng_state()), "training drew from the global generator"
    for name, parameter in network.named_parameters():
        assert parameter.dtype == torch.float32
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
    network.eval()
    extractor, head = split(network)
    assert torch.equal(network(x), head(extractor(x)))
    assert head(extractor(x)).std() > 0


@pytest.mark.parametrize("kind", sorted(components.kinds("model")))
def test_the_stream_alone_decides_the_start(kind):
    shape = FLOWS if kind == "cnn1d" else CIFAR
    first, second = (build(kind, shape, **NEEDED.get(kind, {})).state_dict() for _ in range(2))
    with torch_default_stream(1, "start"):
        other = (
            components.build("model", {"kind": kind, **NEEDED.get(kind, {})}).build(shape, 10).state_dict()
        )
    assert first.keys() == second.keys() == other.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def test_which_kinds_take_which_shapes():
    taken = {}
    for shape in (MNIST, CIFAR, FLOWS):
        for kind in components.kinds("model"):
            try:
                build(kind, shape, **NEEDED.get(kind, {}))
                taken.setdefault(shape, set()).add(kind)
            except InputError:
                pass
    images = {"softmax_regression", "mlp", "mnist_cnn", "lenet_gn", "conv5", "resnet18", "resnet50"}
    assert images <= taken[MNIST] == taken[CIFAR]
    assert {"softmax_regression", "mlp", "cnn1d"} <= taken[FLOWS]
    assert "cnn1d" not in taken[MNIST]
    assert not taken[FLOWS] & (images - {"softmax_regression", "mlp"})


@pytest.mark.parametrize(
    ("kind", "shape", "message"),
    [
        ("mnist_cnn", (1, 15, 28), "at least 16x16"),
        ("lenet_gn", (3, 7, 7), "at least 8x8"),
        ("resnet18", (3, 7, 32), "at least 8x8"),
        ("lenet_gn", (3072,), "images (channels, height, width)"),
        ("cnn1d", (4,), "(features,), at least 5"),
        ("mlp", (0,), "all at least 1"),
        ("mlp", (), "all at least 1"),
    ],
)
def test_wrong_shapes_name_kind_shape_and_what_is_allowed(kind, shape, message):
    with pytest.raises(InputError) as caught:
        build(kind, shape)
    assert str(caught.value).startswith(f"model {kind!r}: input shape {shape}, allowed ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("mnist_cnn", (2, 16, 17)),
        ("lenet_gn", (1, 8, 15)),
        ("conv5", (2, 41, 8)),
        ("cnn1d", (5,)),
        ("resnet18", (1, 8, 9)),
    ],
)
def test_smallest_and_odd_inputs_work(kind, shape):
    network = build(kind, shape, 3).eval()
    assert network(samples(shape)).shape == (4, 3)


def test_no_classes_is_an_error():
    with pytest.raises(InputError, match="0 classes"):
        build("mlp", MNIST, 0)


@pytest.mark.parametrize(
    ("kind", "fields", "where"),
    [
        ("mlp", {"hidden": [64, 0]}, "model.hidden.1"),
        ("cnn1d", {"dropout": 1.0}, "model.dropout"),
        ("conv5", {"pad_to": 4}, "model.pad_to"),
        ("resnet18", {"groups": 3}, "model.groups"),
        ("resnet18", {"norm": "layer"}, "model.norm"),
        ("mlp", {"init": "zeros"}, "model.init"),
    ],
)
def test_wrong_fields_are_named(kind, fields, where):
    with pytest.raises(InputError, match=where):
        build(kind, MNIST, **fields)


def swapped(layers):
    """The layers with every (pool, ReLU) turned into (ReLU, pool), as the papers write it."""
    out, held = [], []
    for layer in layers:
        if isinstance(layer, POOLS) or (held and not isinstance(layer, nn.ReLU)):
            held.append(layer)
            continue
        out += [layer, *held]
        held = []
    return nn.Sequential(*out, *held)


@pytest.mark.parametrize(
    ("kind", "shape", "pools"),
    [("mnist_cnn", MNIST, 2), ("lenet_gn", CIFAR, 3), ("conv5", CIFAR, 3), ("cnn1d", FLOWS, 1)],
)
def test_pool_then_relu_equals_relu_then_pool(kind, shape, pools):
    network = build(kind, shape).eval()  # eval: no dropout between the two orders
    layers = list(network.extractor)
    paper = swapped(layers)
    order = [type(layer) for layer in paper]
    assert order != [type(layer) for layer in layers]
    assert sum(issubclass(layer, POOLS) for layer in order) == pools
    for i, layer in enumerate(order):
        if issubclass(layer, POOLS):
            assert order[i - 1] is nn.ReLU
    x = samples(shape)
    y = torch.tensor([0, 1, 2, 3])
    gradients = []
    for logits in (network(x), network.head(paper(x))):
        loss = nn.functional.cross_entropy(logits, y)
        gradients.append((logits, *torch.autograd.grad(loss, list(network.parameters()))))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-7)


def test_mnist_cnn_by_hand():
    network = build("mnist_cnn", MNIST)
    conv1, conv2, fc = (m for m in network.extractor if isinstance(m, nn.Conv2d | nn.Linear))
    x = samples(MNIST)
    f = nn.functional
    out = f.max_pool2d(f.relu(f.conv2d(x, conv1.weight, conv1.bias)), 2)
    out = f.max_pool2d(f.relu(f.conv2d(out, conv2.weight, conv2.bias)), 2)
    assert out.shape == (4, 20, 4, 4)
    out = f.relu(out.flatten(1) @ fc.weight.T + fc.bias)
    torch.testing.assert_close(network(x), out @ network.head.weight.T + network.head.bias)


def test_softmax_regression_by_hand():
    network = build("softmax_regression", (2,), 3)
    with torch.no_grad():
        network.head.weight.copy_(torch.tensor([[1.0, 2.0], [0.0, -1.0], [3.0, 0.0]]))
        network.head.bias.copy_(torch.tensor([0.5, 0.0, -1.0]))
    assert network(torch.tensor([[1.0, 10.0]])).tolist() == [[21.5, -10.0, 2.0]]


def test_conv5_pads_mnist_with_two_zeros_on_each_side():
    small, large = build("conv5", MNIST), build("conv5", (1, 32, 32))
    x = samples(MNIST)
    assert not any(isinstance(m, nn.ZeroPad2d) for m in large.modules())
    torch.testing.assert_close(small(x), large(nn.functional.pad(x, (2, 2, 2, 2))))
    assert not any(m.bias is not None for m in large.modules() if isinstance(m, nn.Conv2d))


def test_cnn1d_finds_a_pattern_wherever_it_stands():
    network = build("cnn1d", FLOWS).eval()
    x = torch.zeros(1, 196)
    x[0, 50:60] = samples((10,), 1)
    torch.testing.assert_close(network(x), network(x.roll(37, dims=1)))


def test_cnn1d_drops_features_between_pool_and_head():
    """Half of them by default, in training only; a head sees what is left, doubled."""
    for rate in (None, 0.25):
        network = build("cnn1d", FLOWS, **({} if rate is None else {"dropout": rate}))
        rate = 0.5 if rate is None else rate
        x = samples(FLOWS, 200)
        whole = network.eval().extractor(x)
        with noise(torch_stream(0, "test")):
            some = network.train().extractor(x)
        torch.testing.assert_close(some[some != 0], (whole / (1 - rate))[some != 0])
        assert (some == 0)[whole != 0].float().mean().item() == pytest.approx(rate, abs=0.03)


def test_images_that_lie_channels_last_give_the_same_logits():
    x = samples((32, 32, 3))
    for kind in ("softmax_regression", "mlp", "lenet_gn", "conv5"):
        network = build(kind, CIFAR)
        torch.testing.assert_close(network(as_batch(x)), network(as_batch(x).contiguous()))


def test_kaiming_normal_has_the_published_spread():
    network = build("conv5", CIFAR, init="kaiming_normal")
    layers = [m for m in network.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    for layer in layers:
        fan_in = layer.weight[0].numel()
        assert layer.weight.std().item() == pytest.approx(math.sqrt(2 / fan_in), rel=0.1)
        assert abs(layer.weight.mean().item()) < 4 * math.sqrt(2 / fan_in / layer.weight.numel())
        assert layer.bias is None or not layer.bias.any()
    assert len(layers) == 7
    # torch's default is uniform with standard deviation 1 / sqrt(3 fan-in)
    default = build("conv5", CIFAR).head.weight
    assert default.std().item() == pytest.approx(1 / math.sqrt(3 * 512), rel=0.1)


def test_split_gives_the_submodules_themselves():
    network = build("mlp", FLOWS)
    assert split(network) == (network.extractor, network.head)
    with pytest.raises(InputError, match=r"Sequential has no submodule extractor and no head.*found 0"):
        split(nn.Sequential(nn.Linear(2, 2)))


def test_a_user_s_own_kind():
    @register("model", "test_own_kind")
    class Own(Part):
        "Two lines."

        scale: int = field(2, "times")

        def build(self, shape, classes):
            return Network(nn.Flatten(), nn.Linear(math.prod(shape), self.scale * classes))

    try:
        assert build("test_own_kind", FLOWS, 3)(samples(FLOWS)).shape == (4, 6)
    finally:
        del components._registry["model"]["test_own_kind"]


def test_the_example_of_the_docstring_works(tmp_path):
    text = fedroam.models.__doc__
    code = textwrap.dedent(text[text.index("    import math") :])
    (tmp_path / "my_model.py").write_text(code)
    try:
        components.use(tmp_path / "my_model.py")
        network = build("mine", MNIST, 10, width=5)
        assert size(network) == 784 * 5 + 5 + 5 * 10 + 10
        assert split(network)[1] is network.head
    finally:
        components._registry["model"].pop("mine", None)
