"""What several tests share, named by what it gives."""
