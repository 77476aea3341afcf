"""Runs while they are computed: what their folders say now, in the terminal and in a browser. Nothing is written."""

from fedroam.live.glance import Glance as Glance
from fedroam.live.glance import Watcher as Watcher
