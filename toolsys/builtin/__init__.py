"""Builtin tools, one a file. They import the domain, ports and the standard library; never registry or pipeline."""
