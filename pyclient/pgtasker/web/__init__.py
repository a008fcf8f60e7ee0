"""HTTP for pgtasker: an API over the SQL functions and a dashboard (extra ``web``; docs/http.md, docs/dashboard.md).

Both are ASGI applications: ``pgtasker api`` and ``pgtasker dashboard`` serve them, and any other ASGI server or
application can: ``pgtasker.web.api.create_app(...)``, ``pgtasker.web.dashboard.create_app(...)``.
"""
