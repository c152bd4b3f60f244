"""WSGI middleware and routes shared by receiver, dashboard and facade."""
