"""Devices: how long local work takes, what moving costs, and what batteries hold."""

from fedroam.devices import battery, classes, compute, meters, motion
from fedroam.devices.arithmetic import Arithmetic, training_flops
from fedroam.devices.battery import (
    Battery,
    ChargesAtPlaces,
    Use,
    battery_after,
    battery_at_start,
    charging_edges,
    charging_ways,
    emptied,
)
from fedroam.devices.compute import Compute, CountsBeside, seconds_of
from fedroam.devices.motion import Motion, motion_power, power_of

__all__ = [
    "Arithmetic",
    "Battery",
    "ChargesAtPlaces",
    "Compute",
    "CountsBeside",
    "Motion",
    "Use",
    "battery",
    "battery_after",
    "battery_at_start",
    "charging_edges",
    "charging_ways",
    "classes",
    "compute",
    "emptied",
    "meters",
    "motion",
    "motion_power",
    "power_of",
    "seconds_of",
    "training_flops",
]
