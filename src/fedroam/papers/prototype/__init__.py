"""The hardware prototype of MOHAWK as an emulated site (see `study.py`)."""
