"""toolsys: tenants, runs, invocations, the registry and the one execution pipeline.

The lowest room of the house. It never imports `approvals`, `mcpcatalog` or `config`; what it needs from
them is declared in `toolsys.ports` and arrives in one frozen `Runtime`.
"""
