"""The study of Jahani et al."""
