"""The study of Reza et al."""
