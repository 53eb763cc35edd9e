"""The official conformance suite of the protocol against our adapter as the client."""
