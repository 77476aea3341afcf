"""Links: how fast a model gets from one device to another."""

from fedroam.links import link
from fedroam.links.link import Link

__all__ = ["Link", "link"]
