"""Routes `/openapi.json` and `/docs`.

`/docs` is a page of the document without external resources. Its script sends requests with the user's key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import orjson
from flask import Response, redirect, render_template, request
from werkzeug.wrappers import Response as ResponseBase

from integration.access import browser, sessions
from integration.access.authenticator import build_unauthorized_error
from integration.access.rights import has
from integration.context import AppContext
from integration.core.api_responses import ApiError, build_error_response, build_response
from integration.facade.openapi.document import build_document
from integration.facade.openapi.schemas import Json, make_example


class Reference:
    """OpenAPI document of one facade.

    It is built at the first request: at the start it would add a tenth to the start time, and most
    installations never serve it.
    """

    def __init__(
        self, context: AppContext, base_paths: tuple[str, ...], own_paths: Mapping[str, Json]
    ) -> None:
        self._context = context
        self._base_paths = base_paths
        self._own_paths = own_paths

    @cached_property
    def _document(self) -> Json:
        return build_document(self._base_paths, self._context.settings.facade.max_limit, self._own_paths)

    @cached_property
    def _text(self) -> bytes:
        return orjson.dumps(self._document)

    def openapi(self) -> ResponseBase:
        return self._find_refusal() or build_response(self._text)

    def page(self) -> ResponseBase:
        return self._find_refusal() or Response(
            render_template(
                "reference.html",
                api=self._document,
                groups=_group_operations(self._document),
                show=_format_value,
                example_of=_write_example,
            )
        )

    def _find_refusal(self) -> ResponseBase | None:
        """Return the response to a client without access, None for others.

        A session of the dashboard, a key or a platform credential gives access, or `facade.public_docs`.
        """
        settings = self._context.settings
        if settings.facade.public_docs:
            return None
        if "Authorization" in request.headers or "X-Auth-Token" in request.headers:
            try:
                self._context.authenticator.identify(request)
            except ApiError as error:
                return error.to_response()
            return None
        token, roles = browser.browser_token(request), settings.dashboard.second_factor
        login = sessions.find(self._context.app_db, token, second_factor_roles=roles) if token else None
        if login is not None:
            if has(login[1], "viewer"):
                return None
            return build_error_response(403, "Your role exports files and reads Reports only.")
        if "text/html" in request.headers.get("Accept", ""):
            return redirect(f"/login?next={request.path}", 302)
        return build_unauthorized_error(
            "The description of the API requires a key or a dashboard login."
        ).to_response()


def _group_operations(openapi: Json) -> list[tuple[str, list[tuple[str, str, Json]]]]:
    """Return (module, [(method, path, operation)]) in the order of the document."""
    groups: dict[str, list[tuple[str, str, Json]]] = {tag["name"]: [] for tag in openapi["tags"]}
    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            groups[operation["tags"][0]].append((method.upper(), path, operation))
    return list(groups.items())


def _write_example(body: Json) -> str:
    """Return a request body as JSON: its example, or its required fields."""
    return json.dumps(body.get("example", make_example(body["schema"])), indent=2, ensure_ascii=False)


def _format_value(value: Any) -> str:
    """Format a schema's type in words, or an example as JSON."""
    if isinstance(value, dict) and "$ref" in value:
        return str(value["$ref"]).rpartition("/")[2]
    if isinstance(value, dict) and ("type" in value or "items" in value):
        json_type = value.get("type", "any")
        type_text = " or ".join(json_type) if isinstance(json_type, list) else str(json_type)
        return f"{type_text} of {_format_value(value['items'])}" if "items" in value else type_text
    return json.dumps(value, indent=2, ensure_ascii=False) if value else "any"
