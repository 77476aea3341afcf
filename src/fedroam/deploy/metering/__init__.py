"""What devices draw, measured beside their work."""
