"""Sketches: what targets weigh, found in the order that is quickest, and so known but for the last digits."""

from pathlib import Path

from fedroam.native import sources

# What writes the kernels here, as they were when this was imported: see `native.target`.
SOURCES = sources(Path(__file__).parent)
