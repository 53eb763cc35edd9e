"""The composition root: settings, wiring, and the processes of a deployment.

It sees every other room and none of them may import it (`toolsys`, `approvals` and `mcpcatalog` stay below).
Importing this package loads nothing: `manage.py up` supervises without Django.
"""
