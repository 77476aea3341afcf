"""Devices: how long local work takes."""

from fedroam.devices import classes, compute
from fedroam.devices.arithmetic import training_flops
from fedroam.devices.compute import Compute

__all__ = ["Compute", "classes", "compute", "training_flops"]
