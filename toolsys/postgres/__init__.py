"""Django's PostgreSQL backend with one addition: the current tenant goes into every transaction."""
