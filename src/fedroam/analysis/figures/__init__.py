"""Figures: one question a file, and how every one of them looks."""

import os

from fedroam.errors import InputError

try:
    import matplotlib as matplotlib  # before any file here does
except ValueError as error:  # it looks at what the environment says as it is imported
    given, known = os.environ.get("MPLBACKEND", ""), str(error).rpartition("supported values are ")[2]
    raise InputError(f"MPLBACKEND = {given!r} in the environment: allowed are {known}, or nothing") from None
