"""A site on one machine: processes, links and processors that behave as those of a fleet."""

from fedroam.deploy.emulation.emulating import emulate

__all__ = ["emulate"]
