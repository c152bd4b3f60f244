"""WSGI parts shared by receiver, dashboard and facade."""
