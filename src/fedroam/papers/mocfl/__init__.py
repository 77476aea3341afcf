"""The study of MoCFL."""
