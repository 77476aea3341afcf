"""Handing models over: to a process that knows nothing of fedroam, and to new rows."""

from fedroam.handover.export import FORMATS, Exported, export_model
from fedroam.handover.final import FinalModel, final_model
from fedroam.handover.predictions import Predictions, predict

__all__ = [
    "FORMATS",
    "Exported",
    "FinalModel",
    "Predictions",
    "export_model",
    "final_model",
    "predict",
]
