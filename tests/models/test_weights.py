"""ResNets: structure against an independent count, and weights from safetensors files."""

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from fedroam import components
from fedroam.errors import InputError
from fedroam.randomness import torch_default_stream

CIFAR = (3, 32, 32)


def build(seed=0, classes=10, kind="resnet18", shape=CIFAR, **fields):
    with torch_default_stream(seed, "start"):
        return components.build("model", {"kind": kind, **fields}).build(shape, classes)


def torchvision_names(network):
    """The state of a network as a published file would name it."""
    state = {}
    for name, tensor in network.state_dict().items():
        name = name.replace("head.", "fc.") if name.startswith("head.") else name.removeprefix("extractor.")
        state[name] = tensor.clone().contiguous()
    return state


@pytest.fixture(scope="module")
def imagenet():
    """Weights as published for ImageNet: 7x7 first convolution, 1,000 classes."""
    network = build(seed=7, classes=1000)
    with torch_default_stream(8, "statistics"):
        for layer in network.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.running_mean.normal_()
                layer.running_var.uniform_(0.5, 2)
                layer.weight.data.uniform_(0.5, 2)
        state = torchvision_names(network)
        state["conv1.weight"] = torch.randn(64, 3, 7, 7)
    return state


def test_names_are_those_of_the_published_files():
    names = set(torchvision_names(build()))
    expected = {"conv1.weight", "bn1.weight", "bn1.running_var", "fc.weight", "fc.bias"}
    expected |= {"layer1.0.conv1.weight", "layer1.1.bn2.bias", "layer2.0.downsample.0.weight"}
    expected |= {"layer2.0.downsample.1.running_mean", "layer4.1.conv2.weight"}
    assert expected <= names
    assert len(names) == 122  # the length of the published resnet18 state
    assert not any(name.startswith("layer1.0.downsample") for name in names)


def test_resnet50_names_and_shapes():
    state = torchvision_names(build(kind="resnet50"))
    assert len(state) == 320  # the length of the published resnet50 state
    assert list(state["layer1.0.downsample.0.weight"].shape) == [256, 64, 1, 1]
    assert list(state["layer4.0.conv2.weight"].shape) == [512, 512, 3, 3]
    assert list(state["layer4.2.conv3.weight"].shape) == [2048, 512, 1, 1]
    assert [sum(f"layer{i}.{j}.conv1.weight" in state for j in range(9)) for i in (1, 2, 3, 4)] == [
        3,
        4,
        6,
        3,
    ]


@pytest.mark.parametrize(
    ("kind", "widths"), [("resnet18", (64, 128, 256, 512)), ("resnet50", (256, 512, 1024, 2048))]
)
def test_sizes_between_the_stages(kind, widths):
    layers, x, seen = build(kind=kind).extractor, torch.zeros(1, *CIFAR), []
    with torch.no_grad():
        for name, layer in layers.eval().named_children():
            x = layer(x)
            seen.append((name, tuple(x.shape[1:])))
    sizes = dict(seen)
    assert sizes["conv1"] == (64, 32, 32)  # stride 1
    assert [sizes[f"layer{i}"] for i in (1, 2, 3, 4)] == list(
        zip(widths, (32, 16, 8, 4), (32, 16, 8, 4), strict=True)
    )
    assert sizes["flatten"] == (widths[-1],)


def test_a_block_by_hand():
    network = build(norm="group", groups=4)
    block = network.extractor.layer2[0]
    x = torch.randn(2, 64, 8, 8, generator=torch.Generator().manual_seed(0))
    f = nn.functional
    out = f.conv2d(x, block.conv1.weight, stride=2, padding=1)
    out = f.conv2d(f.relu(f.group_norm(out, 4)), block.conv2.weight, padding=1)
    short = f.group_norm(f.conv2d(x, block.downsample[0].weight, stride=2), 4)
    torch.testing.assert_close(block(x), f.relu(f.group_norm(out, 4) + short))


def test_round_trip_gives_the_same_network(tmp_path):
    source = build(seed=3)
    with torch_default_stream(0, "warm-up"):
        source(torch.randn(4, *CIFAR))  # running statistics that are not the start values
    save_file(torchvision_names(source), tmp_path / "w.safetensors")
    target = build(seed=4, weights=str(tmp_path / "w.safetensors"))
    x = torch.ones(2, *CIFAR)
    assert torch.equal(source.eval()(x), target.eval()(x))
    assert "loaded 102 tensors; skipped none" in target.notes[0]  # 122 less 20 counters


def test_imagenet_file_skips_first_convolution_and_head(tmp_path, imagenet):
    path = tmp_path / "w.safetensors"
    save_file(imagenet, path)
    network, untouched = build(weights=str(path)), build()
    state, start = torchvision_names(network), torchvision_names(untouched)
    for name in ("conv1.weight", "fc.weight", "fc.bias"):
        assert torch.equal(state[name], start[name])
    for name in set(state) - {"conv1.weight", "fc.weight", "fc.bias"}:
        assert name.endswith("tracked") or torch.equal(state[name], imagenet[name]), name
    note = network.notes[0]
    assert "loaded 99 tensors" in note
    assert "conv1.weight (7x7 kernel in the file, 3x3 here)" in note
    assert "fc.bias, fc.weight (1000 classes in the file, 10 here)" in note


def test_centre_takes_the_middle_of_the_first_convolution(tmp_path, imagenet):
    path = tmp_path / "w.safetensors"
    save_file(imagenet, path)
    network = build(weights=str(path), first_conv="centre", classes=1000)
    assert torch.equal(network.extractor.conv1.weight, imagenet["conv1.weight"][:, :, 2:5, 2:5])
    assert torch.equal(network.head.weight, imagenet["fc.weight"])
    grey = build(weights=str(path), first_conv="centre", shape=(1, 28, 28))
    assert "conv1.weight (3 input channels in the file, 1 here)" in grey.notes[0]


def test_group_norms_keep_their_start_when_the_file_has_batch_norms(tmp_path, imagenet):
    path = tmp_path / "w.safetensors"
    save_file(imagenet, path)
    network = build(weights=str(path), norm="group")
    assert all((m.weight == 1).all() for m in network.modules() if isinstance(m, nn.GroupNorm))
    assert torch.equal(network.extractor.layer3[1].conv2.weight, imagenet["layer3.1.conv2.weight"])
    assert "100 tensors (batch norms in the file, group norms here)" in network.notes[0]


def test_group_norm_file_loads_into_group_norms_only(tmp_path):
    source = build(seed=3, norm="group")
    nn.init.uniform_(source.extractor.bn1.weight, generator=torch.Generator().manual_seed(0))
    path = tmp_path / "w.safetensors"
    save_file(torchvision_names(source), path)
    target = build(norm="group", weights=str(path))
    assert torch.equal(target.extractor.bn1.weight, source.extractor.bn1.weight)
    with pytest.raises(InputError, match=r"lacks 'bn1\.running_mean'"):
        build(weights=str(path))


def test_half_precision_is_converted(tmp_path, imagenet):
    path = tmp_path / "w.safetensors"
    save_file({k: v.half() if v.is_floating_point() else v for k, v in imagenet.items()}, path)
    weight = build(weights=str(path)).extractor.layer1[0].conv1.weight
    assert weight.dtype == torch.float32
    assert torch.equal(weight, imagenet["layer1.0.conv1.weight"].half().float())


def replaced(state, **tensors):
    return {**state, **{name.replace("__", "."): tensor for name, tensor in tensors.items()}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda s: replaced(s, layer1__0__conv1__weight=torch.zeros(64, 64, 1, 1)),
            r"'layer1.0.conv1.weight' has shape .*\[64, 64, 1, 1\], allowed is .*\[64, 64, 3, 3\]",
        ),
        (lambda s: replaced(s, fc__weight=torch.zeros(1000, 2048)), r"'fc.weight' has shape"),
        (
            lambda s: replaced(s, bn1__weight=torch.zeros(64, dtype=torch.int64)),
            "'bn1.weight' has shape int64",
        ),
        (
            lambda s: replaced(s, layer1__0__conv3__weight=torch.zeros(1)),
            "holds 'layer1.0.conv3.weight', which the network has not",
        ),
        (lambda s: {k: v for k, v in s.items() if k != "bn1.bias"}, "lacks 'bn1.bias'"),
        (
            lambda s: replaced(s, bn1__bias=torch.full((64,), torch.nan)),
            "'bn1.bias' holds values that are not finite",
        ),
    ],
)
def test_files_that_do_not_fit(tmp_path, imagenet, change, message):
    path = tmp_path / "w.safetensors"
    save_file(change(imagenet), path)
    with pytest.raises(InputError, match=message) as caught:
        build(weights=str(path))
    assert str(path) in str(caught.value)
    assert str(caught.value).startswith("model 'resnet18': weights ")
    assert "\n" not in str(caught.value)


def test_missing_and_foreign_files(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        build(weights=str(tmp_path / "none.safetensors"))
    with pytest.raises(InputError, match="no such file"):
        build(weights=str(tmp_path))
    foreign = tmp_path / "w.pth"
    torch.save({"conv1.weight": torch.zeros(1)}, foreign)
    for content in (foreign.read_bytes(), b"", b"hello", (2**63).to_bytes(8, "little") + b"{}"):
        foreign.write_bytes(content)
        with pytest.raises(InputError, match="not a safetensors file") as caught:
            build(weights=str(foreign))
        assert "\n" not in str(caught.value)
