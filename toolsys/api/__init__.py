"""The REST API of agent runtimes, under `/v1`. Edges only: one check, one service or selector call, one answer."""
