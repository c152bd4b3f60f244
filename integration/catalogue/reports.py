"""Reports module: scheduled reports. 6 operations."""

from __future__ import annotations

from integration.catalogue.rows import (
    ModuleOperations,
    make_dictionary_resource,
    make_fields,
)
from integration.catalogue.shapes import Field, Resource

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
        "{type: string, time_of_day: integers, day_of_week: integers, day_of_month: array}; type W is weekly",
        members=("type", "time_of_day", "day_of_week", "day_of_month", "tz"),
    ),
    Field("timezone", "string"),
    Field("tz", "string", "named in older pages of the platform", documented=False),
)

_REPORTS = ModuleOperations("reports")

OPERATIONS = (
    _REPORTS.list("/reportschedules", "Report schedules.", "report_schedule"),
    _REPORTS.create("/reportschedules", "Schedules a report.", "report_schedule", _SCHEDULE_BODY),
    _REPORTS.read("/reportschedules/{id}", "One report schedule.", "report_schedule"),
    _REPORTS.change("/reportschedules/{id}", "Changes a report schedule.", "report_schedule", _SCHEDULE_BODY),
    _REPORTS.delete("/reportschedules/{id}", "Deletes a report schedule.", "report_schedule"),
    _REPORTS.list_codes(
        "/reportschedules/dictionaries", "Dictionaries of report schedules.", "report_schedule_dictionary"
    ),
)
