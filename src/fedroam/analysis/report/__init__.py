"""Reports: one self-contained page, and the tables of the terminal."""
