"""Links: how fast a model gets from one device to another."""

from fedroam.links import link, lte_wifi, path_loss
from fedroam.links.air import Air, Ended, Transfer
from fedroam.links.link import Link
from fedroam.links.lte_wifi import between
from fedroam.links.steps import Steps, rate_steps

__all__ = [
    "Air",
    "Ended",
    "Link",
    "Steps",
    "Transfer",
    "between",
    "link",
    "lte_wifi",
    "path_loss",
    "rate_steps",
]
