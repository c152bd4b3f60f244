from tests.support.application import platform  # noqa: F401
from tests.support.applications.shared_app import module_app, shared_app  # noqa: F401
