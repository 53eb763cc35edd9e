"""Settings of the property tests: no per-example deadline (machines differ), and a seed that can be replayed.

With every run of the suite a few examples of each, many in `make properties`.
"""

from hypothesis import settings

from tests.property.budget import examples

settings.register_profile("toolsys", deadline=None, max_examples=examples(200), print_blob=True)
settings.load_profile("toolsys")
