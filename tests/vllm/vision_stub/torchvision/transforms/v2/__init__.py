"""The newer interface."""
