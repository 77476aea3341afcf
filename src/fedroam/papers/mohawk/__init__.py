"""The study of Farcas et al. (MOHAWK)."""
