"""The docs server: `docs.search` and `docs.audit_links` over a folder of Markdown, read-only."""
