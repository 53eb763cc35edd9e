"""Recording what the servers that are installed here declare, in the form of the shared corpus."""
