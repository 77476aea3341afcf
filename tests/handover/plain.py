"""A process that has no fedroam: it reads exported folders with torch, ONNX Runtime and the standard library alone.

Called with a folder of exports, one a format, and a .npy file of raw samples; prints the classes that each predicts.
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from safetensors.torch import load_file
from torch import nn

assert not any(name.startswith("fedroam") for name in sys.modules)
for name in ("fedroam", "support"):
    sys.modules[name] = None  # type: ignore[assignment]  # importing it fails from here on

home, raw = Path(sys.argv[1]), np.load(sys.argv[2])


class Plain(nn.Module):
    """The user's network, as whoever takes the values home would write it."""

    def __init__(self) -> None:
        super().__init__()
        self.extractor = nn.Sequential(
            nn.Conv2d(2, 6, (2, 3)), nn.BatchNorm2d(6), nn.ReLU(), nn.Dropout(0.3), nn.Flatten()
        )
        self.head = nn.Linear(6 * 4 * 5, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.extractor(x * 0.5))


def samples(folder: Path) -> torch.Tensor:
    how = json.loads((folder / "preprocessing.json").read_text())["samples"]
    x = raw.transpose(0, 2, 3, 1) if how["layout"] == "channels_first" else raw
    x = (x / how["divide"] - np.array(how["mean"])) / np.array(how["scale"])
    return torch.from_numpy(x.astype(np.float32).transpose(0, 3, 1, 2).copy())


answers = {}
with torch.no_grad():
    for to in ("state_dict", "safetensors"):
        module = Plain().eval()
        values = (
            torch.load(home / to / "model.pt", weights_only=True)
            if to == "state_dict"
            else load_file(home / to / "model.safetensors")
        )
        module.load_state_dict(values)
        answers[to] = module(samples(home / to)).argmax(1).tolist()
    script = torch.jit.load(home / "torchscript" / "model.torchscript")
    answers["torchscript"] = script(samples(home / "torchscript")).argmax(1).tolist()
session = onnxruntime.InferenceSession(home / "onnx" / "model.onnx", providers=["CPUExecutionProvider"])
(logits,) = session.run(None, {"samples": samples(home / "onnx").numpy()})
answers["onnx"] = logits.argmax(1).tolist()
print(json.dumps(answers))
