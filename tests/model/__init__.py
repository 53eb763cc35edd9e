"""The model search: the real pipeline over the store in memory, under a scheduler that chooses every next step."""
