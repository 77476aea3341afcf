"""Links: how fast a model gets from one device to another."""

from fedroam.links import link
from fedroam.links.air import Air, Ended, Transfer
from fedroam.links.link import Link
from fedroam.links.steps import Steps, rate_steps

__all__ = ["Air", "Ended", "Link", "Steps", "Transfer", "link", "rate_steps"]
