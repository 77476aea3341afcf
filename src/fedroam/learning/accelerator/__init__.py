"""The engine for accelerators and what it computes with."""
