"""Archived files for browsers: fetched if missing, sent and audited."""

from __future__ import annotations

from flask import abort, request
from werkzeug.wrappers import Response

from integration.access import audit
from integration.context import app_context
from integration.core.api_responses import send_file
from integration.core.errors import PlatformError, PlatformRefused
from integration.dashboard.site.guard import current_person
from integration.mirror.sync_state.media_files import MediaKind


def send_archived(
    kind: MediaKind, record_id: int, *, action: str, mimetype: str, as_attachment: bool = False
) -> Response:
    """Send a record's file with Range support and audit the access.

    A missing file is downloaded first. `action` is its name in the audit log. Aborts with 404 if
    the platform has none, 503 if it cannot be fetched.
    """
    context = app_context()
    try:
        path = context.fetch_file(kind, record_id)
    except PlatformRefused as error:
        abort(404, f"The phone system has none: {error}")
    except PlatformError as error:
        abort(503, f"The file could not be downloaded from the phone system: {error}")
    except OSError as error:
        abort(503, f"The file could not be stored in the archive: {error.strerror}")
    name = f"{kind}-{record_id}{path.suffix}"
    response = send_file(path, mimetype=mimetype, as_attachment=as_attachment, download_name=name)
    audit.record_content(
        context.app_db,
        request,
        response,
        who=current_person().email,
        action=action,
        subject=str(record_id),
    )
    return response
