"""Connectivity and convergence: who is linked with whom, and what theory makes of it."""
