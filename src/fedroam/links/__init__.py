"""Links: how fast a model gets from one device to another."""

from fedroam.links import link, lte_wifi, path_loss
from fedroam.links.air import Air, Ended, Transfer
from fedroam.links.air_kernel import Cells, Events, play, transfers_made
from fedroam.links.link import ConstantRate, Link, check_link, everywhere_of, rates_of
from fedroam.links.lte_wifi import between
from fedroam.links.steps import Steps, rate_steps

__all__ = [
    "Air",
    "Cells",
    "ConstantRate",
    "Ended",
    "Events",
    "Link",
    "Steps",
    "Transfer",
    "between",
    "check_link",
    "everywhere_of",
    "link",
    "lte_wifi",
    "path_loss",
    "play",
    "rate_steps",
    "rates_of",
    "transfers_made",
]
