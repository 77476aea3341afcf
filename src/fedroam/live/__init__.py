"""Runs while they are computed: what their folders say now, in the terminal and in a browser. Nothing is written."""

from fedroam.live.glance import Glance, Watcher
from fedroam.live.server import LiveServer

__all__ = ["Glance", "LiveServer", "Watcher"]
