"""Reports module: scheduled reports. 6 operations."""

from __future__ import annotations

from integration.catalogue.rows import COLLECTION_QUERY, make_dictionary_resource, make_fields
from integration.catalogue.shapes import Field, Operation, Resource

RESOURCES = (
    Resource(
        name="report_schedule",
        collection="reportschedules",
        title="Report schedule",
        fields=(
            *make_fields("integer", "id culture format:choice report_id status:code"),
            *make_fields("timestamp", "created_at end_at last_run_at next_run_at start_at"),
            *make_fields("string", "description:text emails frequency name timezone"),
        ),
        date="created_at",
    ),
    make_dictionary_resource("reportschedules", "report_schedule", "Codes of report schedules"),
)

_SCHEDULE_BODY = (
    Field("report_id", "integer"),
    *make_fields("string", "name description"),
    Field("emails", "array", "e-mail addresses"),
    *make_fields("string", "format culture"),
    Field("start_at", "string", "a date, YYYY-MM-DD"),
    Field("end_at", "string", "a date, YYYY-MM-DD"),
    Field("status", "string"),
    Field(
        "frequency",
        "object",
        "{type: string, time_of_day: integers, day_of_week: integers, day_of_month: array}; type W is weekly "
        "(observed.md §4)",
    ),
    Field("timezone", "string"),
    Field("tz", "string", "in the platform's older pages (observed.md §4)", documented=False),
)

OPERATIONS = (
    Operation(
        "reports",
        "GET",
        "/reportschedules",
        "collection",
        "Report schedules.",
        "report_schedule",
        query=COLLECTION_QUERY,
    ),
    Operation(
        "reports",
        "POST",
        "/reportschedules",
        "item",
        "Schedules a report.",
        "report_schedule",
        success=(201,),
        errors=(400, 401),
        body=_SCHEDULE_BODY,
    ),
    Operation(
        "reports",
        "GET",
        "/reportschedules/{id}",
        "item",
        "One report schedule.",
        "report_schedule",
        errors=(401, 403, 404),
    ),
    Operation(
        "reports",
        "PATCH",
        "/reportschedules/{id}",
        "item",
        "Changes a report schedule.",
        "report_schedule",
        errors=(400, 401, 403, 404),
        body=_SCHEDULE_BODY,
    ),
    Operation(
        "reports",
        "DELETE",
        "/reportschedules/{id}",
        "none",
        "Deletes a report schedule.",
        "report_schedule",
        success=(204,),
        errors=(401, 403, 404),
    ),
    Operation(
        "reports",
        "GET",
        "/reportschedules/dictionaries",
        "dictionary",
        "Dictionaries of report schedules.",
        "report_schedule_dictionary",
        errors=(),
    ),
)
