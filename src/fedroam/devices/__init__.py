"""Devices: how long local work takes."""

from fedroam.devices import compute
from fedroam.devices.compute import Compute

__all__ = ["Compute", "compute"]
