"""Figures: one question a file, and how every one of them looks."""
