"""Links from a call or contact into the CRM of the business."""

from __future__ import annotations

from typing import Any

from flask import Flask

from integration.context import app_context
from integration.mirror.page_queries import crm_address


def register(app: Flask) -> None:
    """Add `crm_link`, `crm_link_of_call` and `crm_label` to the templates."""

    def build_link(*arguments: Any, **options: Any) -> str | None:
        return crm_address.build_address(app_context(), *arguments, **options)

    app.jinja_env.globals["crm_link"] = build_link
    app.jinja_env.globals["crm_link_of_call"] = lambda call: crm_address.build_address_of_call(
        app_context(), call
    )
    app.jinja_env.globals["crm_label"] = lambda: app_context().settings.dashboard.crm_label
    app.jinja_env.globals["has_crm"] = lambda: app_context().settings.dashboard.crm_url is not None
