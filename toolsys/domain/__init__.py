"""Pure types and rules: no Django, no I/O, no clock, no randomness. Anyone may import them."""
