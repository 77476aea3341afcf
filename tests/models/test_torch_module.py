"""The user's own modules: what is handed in, what is refused, and how it is said."""

import sys
import types

import numpy as np
import pytest
import torch
from torch import nn

from fedroam import components
from fedroam.errors import InputError
from fedroam.models import Dropout, noise
from fedroam.randomness import torch_default_stream, torch_stream

HERE = "own_models"


class Good(nn.Module):
    def __init__(self, width, classes=2, act=nn.ReLU):
        super().__init__()
        self.net = nn.Sequential(
            nn.Flatten(), nn.Linear(12, width), act(), nn.Dropout(0.5), nn.BatchNorm1d(width)
        )
        self.out = nn.Linear(width, classes)

    def forward(self, x):
        return self.out(self.net(x))


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(12, 3)

    def forward(self, x):
        return nn.functional.dropout(self.out(x.flatten(1)), training=self.training)


KEPT = ("tensor", "bfloat16", "array", "list", "dict", "generator", "drawing")


class Counting(nn.Module):
    """An output that grows with each batch that was trained on, whoever's it was; it also notes a shape."""

    def __init__(self, counted=True):
        super().__init__()
        self.out, self.counted, self.batches, self.width = nn.Linear(12, 3), counted, 0, 0

    def forward(self, x):
        self.width = x.flatten(1).shape[1]
        if self.training and self.counted:
            self.batches += 1
        return self.out(x.flatten(1)) * (1 + 0.02 * self.batches)


class Keeping(nn.Module):
    """Keeps something of each batch in what is no buffer."""

    def __init__(self, what):
        super().__init__()
        self.out, self.what = nn.Linear(12, 3), what
        self.kept = {
            "tensor": torch.zeros(()), "bfloat16": torch.zeros(2, dtype=torch.bfloat16), "array": np.zeros(2),
            "list": [], "dict": {},
            "generator": torch.Generator().manual_seed(1), "drawing": np.random.default_rng(1),
        }[what]  # fmt: skip

    def forward(self, x):
        logits = self.out(x.flatten(1))
        if not self.training:
            return logits
        if self.what in ("tensor", "bfloat16"):
            self.kept = self.kept + 1
        elif self.what == "array":
            self.kept += 1
        elif self.what == "list":
            self.kept.append(float(x.sum()))
        elif self.what == "dict":
            self.kept["seen"] = self.kept.get("seen", 0) + len(x)
        elif self.what == "generator":
            logits = logits + torch.randn(logits.shape, generator=self.kept)
        else:
            logits = logits + float(self.kept.normal())
        return logits


def keeping(what):
    def build() -> nn.Module:
        return Keeping(what)

    return build


def counting_first() -> nn.Module:
    """Two of one class, of which the first counts."""
    second = Counting(counted=False)
    second.out = nn.Linear(3, 3)
    return nn.Sequential(Counting(), second)


def lazy(shape, classes) -> nn.Module:
    assert shape == (3, 2, 2)
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(5), nn.ReLU(), nn.Linear(5, classes))


def failing() -> nn.Module:
    raise RuntimeError("first line\nsecond line")


def double() -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 3).double())


def frozen(parts=3) -> nn.Module:
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 4), nn.Linear(4, 3))
    net[:parts].requires_grad_(False)
    return net


def bare() -> nn.Module:
    return nn.Flatten()


def text() -> nn.Module:
    return "hello"


def unsaid():
    raise AssertionError("called")


@pytest.fixture(autouse=True)
def own_models(monkeypatch):
    module = types.ModuleType(HERE)
    module.Good, module.Noisy, module.lazy, module.failing, module.number = Good, Noisy, lazy, failing, 3
    for what in KEPT:
        setattr(module, f"keeping_{what}", keeping(what))
    module.frozen, module.Counting, module.counting_first = frozen, Counting, counting_first
    module.double, module.bare, module.text, module.unsaid = double, bare, text, unsaid
    monkeypatch.setitem(sys.modules, HERE, module)


def build(target, shape=(3, 2, 2), classes=3, **arguments):
    part = components.build("model", {"kind": "torch_module", "target": target, "arguments": arguments})
    with torch_default_stream(0, "start"):
        return part.build(shape, classes)


def test_arguments_and_classes_are_handed_in_and_dropout_is_ours():
    module = build(f"{HERE}:Good", width=7)
    assert isinstance(module, Good)
    assert module.out.weight.shape == (3, 7)
    assert isinstance(module.net[3], Dropout)
    assert module.training
    assert int(module.net[4].num_batches_tracked) == 0  # the trial batch left no trace
    with noise(torch_stream(0, "dropout")):
        assert module(torch.ones(5, 3, 2, 2)).shape == (5, 3)


def test_what_the_user_says_wins():
    module = build(f"{HERE}:Good", classes=3, width=4)
    assert module.out.out_features == 3
    with pytest.raises(InputError, match=r"output for 2 samples is \[2, 5\], allowed is \[2, 3\]"):
        components.build(
            "model",
            {"kind": "torch_module", "target": f"{HERE}:Good", "arguments": {"width": 4, "classes": 5}},
        ).build((12,), 3)


def test_a_function_lazy_layers_and_shape():
    module = build(f"{HERE}:lazy")
    assert module[1].weight.shape == (5, 12)
    assert module.training


def test_the_start_depends_on_the_stream_alone():
    first, second = build(f"{HERE}:Good", width=7), build(f"{HERE}:Good", width=7)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no_colon", "allowed is 'package.module:Class'"),
        (":Class", "allowed is 'package.module:Class'"),
        ("no.such.package:Class", "cannot import 'no.such.package' .*PYTHONPATH"),
        (f"{HERE}:Missing", f"'{HERE}' has no 'Missing'"),
        (f"{HERE}:number", "is a int, allowed is a class or function"),
        (
            f"{HERE}:failing",
            r"calling it failed: RuntimeError: first line \(test_torch_module.py, line \d+\)$",
        ),
        (
            f"{HERE}:Good",
            r"calling it failed: TypeError: .*width.*; it was given classes = 3$",
        ),
        (f"{HERE}:text", "gives a str, allowed is a torch.nn.Module"),
        (f"{HERE}:unsaid", "is not called: allowed is a class of torch.nn.Module"),
        ("os:system", "is not called: allowed is a class of torch.nn.Module"),
        ("subprocess:check_output", "is not called"),
        ("pathlib:Path", "is not called"),
        (f"{HERE}:Noisy", "draws from torch's global generator"),
        (f"{HERE}:Counting", r"Counting\.batches changes from batch to batch.*register_buffer\('batches'"),
        *((f"{HERE}:keeping_{what}", r"Keeping\.kept changes from batch to batch") for what in KEPT),
        (f"{HERE}:counting_first", r"Counting\.batches changes from batch to batch"),
        (f"{HERE}:double", "a batch of shape \\[2, 3, 2, 2\\] fails: RuntimeError"),
        (f"{HERE}:bare", r"output for 2 samples is \[2, 12\], allowed is \[2, 3\]"),
        ("torch.nn:Module", "a batch of shape .* fails: NotImplementedError"),
    ],
)
def test_errors_name_the_target_and_the_reason(target, message):
    with pytest.raises(InputError, match=message) as caught:
        build(target)
    assert str(caught.value).startswith(f"model.target = {target!r}: ")
    assert "\n" not in str(caught.value)


def test_a_module_without_parameters_cannot_learn():
    with pytest.raises(InputError, match="parameters are missing, allowed is float32"):
        build(f"{HERE}:bare", shape=(12,), classes=12)


def test_a_module_that_is_frozen_cannot_learn():
    with pytest.raises(
        InputError, match=r"all parameters are frozen \(requires_grad is False\).*; allowed is one that"
    ):
        build(f"{HERE}:frozen")
    kept = build(f"{HERE}:frozen", parts=2)
    assert [p.requires_grad for p in kept.parameters()] == [False, False, True, True]


def test_target_is_needed():
    with pytest.raises(InputError, match=r"model\.target: missing"):
        components.build("model", "torch_module")


def test_a_broken_file_on_the_path(tmp_path, monkeypatch):
    (tmp_path / "broken_model_file.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match="importing 'broken_model_file' failed: ZeroDivisionError"):
        build("broken_model_file:Net")


def test_what_a_module_notes_of_every_batch_alike_does_no_harm():
    build(f"{HERE}:Counting", counted=False)
