"""The rows of the requirement manifest, one chapter a module: `ROWS` of each is in `tests.spec.requirements`."""
