"""Handing models over: to a process that knows nothing of fedroam, and to new rows."""

from fedroam.handover.export import FORMATS as FORMATS
from fedroam.handover.export import Exported as Exported
from fedroam.handover.export import export_model as export_model
from fedroam.handover.final import FinalModel as FinalModel
from fedroam.handover.final import final_model as final_model
from fedroam.handover.predictions import Predictions as Predictions
from fedroam.handover.predictions import predict as predict
