"""Measurements, not tests: run by `make bench`."""
