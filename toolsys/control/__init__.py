"""Control tools, one a file: what acts on the run and not on the world. Imports as builtin tools do."""
