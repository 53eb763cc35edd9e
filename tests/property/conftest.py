"""Settings of the property tests: no per-example deadline (machines differ), and a seed that can be replayed."""

from hypothesis import settings

settings.register_profile("toolsys", deadline=None, max_examples=50, print_blob=True)
settings.load_profile("toolsys")
