"""One module a command; each is an edge: read options, call one function, print one answer."""
