"""Management commands of the composition root."""
