"""The study of de Heredia (2024)."""
