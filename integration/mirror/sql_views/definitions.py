"""Views of mirror.db for users' own SQL.

Their columns are an interface (docs/sql.md).

A view contains what an administrator sees in the dashboard. It uses functions and tables of every SQLite
from 3.37, because any program may open the file. Times of the views are columns of an index, so that a filter
by time reads no other rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from integration.catalogue import get_resource
from integration.mirror.sql_views.columns import (
    ViewColumn,
    make_columns,
    make_currency_column,
    make_expression,
    make_field_column,
    make_time_columns,
)
from integration.sqlite.schema import Schema


@dataclass(frozen=True, slots=True)
class View:
    """A view.

    `source` is the SQL after the columns. `time` is the column for filters by time, '' without one.
    """

    name: str
    about: str
    columns: tuple[ViewColumn, ...]
    source: str
    time: str = ""

    def build_sql(self) -> str:
        """Return the statement that creates the view."""
        cells = ",\n  ".join(f"{column.sql} AS {column.name}" for column in self.columns)
        return f"CREATE VIEW {self.name} AS SELECT\n  {cells}\n{self.source}"


_PERSON_NAME = (
    "CASE WHEN coalesce({0}.first_name, '') = '' THEN {0}.last_name"
    " WHEN coalesce({0}.last_name, '') = '' THEN {0}.first_name"
    " ELSE {0}.first_name || ' ' || {0}.last_name END"
)
"""SQL of a name. Rejected: trim(), which DuckDB sends to SQLite as `main.trim()`."""
_USER_NAME = f"(SELECT {_PERSON_NAME.format('u')} FROM users AS u WHERE u.id = {{0}})"
_MONITORS, _USERS = get_resource("monitors"), get_resource("users")

_CALLER_COLUMNS = (
    *make_columns(
        "c",
        (
            "party",
            "text",
            "number of the outside party as received; empty if it is no number; `erased` after an erasure",
        ),
        ("party_e164", "text", "the same number in E.164: `+447700900101`; null if it is withheld"),
        ("party_name", "text", "contact, user or name from the platform; empty if unknown"),
    ),
)
_ACCOUNT_COLUMNS = (
    *make_columns(
        "c",
        ("our_number", "text", "number of the account, as received"),
        ("our_e164", "text", "the same number in E.164"),
        ("group_kind", "text", "kind of the group: `ring_group`, `queue`, `ivr` …; null without one"),
        ("group_name", "text", "name of the ring group, queue or IVR"),
    ),
)

VIEWS = (
    View(
        "v_calls",
        "one row for each call: the rows of the page *Calls*",
        (
            *make_columns(
                "c",
                ("id", "integer", "id of the call, as in `/calls/<id>`"),
                ("direction", "text", "`in`, `out` or `internal`"),
                (
                    "outcome",
                    "text",
                    "`answered`, `voicemail`, `missed`, `abandoned`, `not_answered` or `internal`;"
                    " null until it is known",
                ),
            ),
            make_expression(
                "state",
                "text",
                "CASE WHEN c.unconfirmed AND c.state <> 'ended' THEN 'unconfirmed' ELSE c.state END",
                "`ended`, or the state of a live call: `ringing`, `talking` …",
            ),
            *make_time_columns("started", "c.started_at", "start (null if unknown)", with_offset=True),
            *make_time_columns("answered", "c.answered_at", "first connection with a person of the account"),
            *make_time_columns("ended", "c.ended_at", "end"),
            *make_columns(
                "c",
                ("wait_seconds", "integer", "seconds from the start to the answer, or to the end"),
                ("ivr_seconds", "integer", "seconds in an IVR, where they are known"),
                ("talk_seconds", "integer", "connected seconds without hold"),
                ("hold_seconds", "integer", "seconds on hold"),
            ),
            *_CALLER_COLUMNS,
            *_ACCOUNT_COLUMNS,
            *make_columns(
                "c",
                ("user_id", "integer", "`id` of `v_people`; also of a user who was deleted since"),
                ("user_name", "text", "person of the account"),
                ("extension", "text", "internal number of the person"),
                ("ended_by", "text", "side that ended the call, as received"),
                ("t_cause", "text", "cause of the end, as received"),
                ("charge", "real", "cost of all legs"),
            ),
            make_currency_column("c.charge"),
            *make_columns(
                "c",
                ("legs", "integer", "number of legs"),
                ("recordings", "integer", "number of recordings"),
                ("voicemails", "integer", "number of voicemail messages"),
            ),
        ),
        "FROM _calls AS c",
        "started_at",
    ),
    View(
        "v_legs",
        "one row for each leg of a call: one phone that rings, talks and ends",
        (
            *make_columns(
                "l",
                ("leg_id", "integer", "id of the leg: `live_id` of CDRs and recordings"),
                ("call_id", "integer", "`id` of `v_calls`"),
            ),
            ViewColumn("call_started_at", "text", "c.started_at", "start of the call, UTC"),
            *make_time_columns("started", "l.started_at", "start of the leg", with_offset=True),
            *make_time_columns("connected", "l.connected_at", "first connection of the leg"),
            *make_time_columns("ended", "l.ended_at", "end of the leg"),
            *make_columns(
                "l",
                ("connected", "integer", "1 if the leg was connected, to a person or a machine"),
                ("context", "text", "where the platform rang: `LOCAL_USER`, `QUEUE`, `PSTN_CALL` …"),
                ("src", "text", "source, as received"),
                ("src_name", "text", "its name, as received"),
                ("dst", "text", "destination, as received"),
                ("dst_name", "text", "its name, as received"),
                ("user_id", "integer", "`id` of `v_people`"),
                ("user_name", "text", "person of the account"),
                ("extension", "text", "internal number of the person"),
                ("duration", "integer", "seconds from the start to the end, from the CDR"),
                ("billsec", "integer", "connected seconds, from the CDR"),
                ("disposition", "text", "disposition of the CDR"),
                ("t_cause", "text", "cause of the end, as received"),
                ("charge", "real", "cost of the leg"),
            ),
            make_currency_column("l.charge"),
        ),
        "FROM _legs AS l JOIN _calls AS c ON c.id = l.call_id",
        "call_started_at",
    ),
    View(
        "v_missed",
        "missed calls and calls with a voicemail message: the rows of `v_calls` with these outcomes",
        (
            *make_columns(
                "c",
                ("id", "integer", "id of the call: `id` of `v_calls`"),
                ("outcome", "text", "`missed` or `voicemail`"),
            ),
            *make_time_columns("started", "c.started_at", "start", with_offset=True),
            *make_columns("c", ("wait_seconds", "integer", "seconds until the caller gave up")),
            *_CALLER_COLUMNS,
            *_ACCOUNT_COLUMNS,
            *make_columns("c", ("voicemails", "integer", "number of voicemail messages")),
        ),
        "FROM _calls AS c WHERE c.outcome IN ('missed', 'voicemail')",
        "started_at",
    ),
    View(
        "v_recordings",
        "one row for each recording, with its call and its file",
        (
            *make_columns("m", ("id", "integer", "id of the recording")),
            ViewColumn("call_id", "integer", "c.id", "`id` of `v_calls`; null until the call is known"),
            *make_time_columns("recorded", 'm."timestamp"', "time of the recording", with_offset=True),
            make_field_column(
                _MONITORS, "duration", "integer", "seconds", alias="m", name="duration_seconds"
            ),
            *make_columns("c", ("direction", "text", "direction of the call")),
            *_CALLER_COLUMNS,
            make_field_column(_MONITORS, "user_id", "integer", "`id` of `v_people`, as received", alias="m"),
            make_expression(
                "user_name",
                "text",
                f"coalesce({_USER_NAME.format('m.user_id')}, c.user_name)",
                "person of the account",
            ),
            make_field_column(_MONITORS, "caller", "text", "caller, as received", alias="m"),
            make_field_column(_MONITORS, "called", "text", "called number, as received", alias="m"),
            make_field_column(_MONITORS, "transcript", "text", "transcript", alias="m"),
            make_field_column(_MONITORS, "summary", "text", "summary", alias="m"),
            make_field_column(_MONITORS, "sentiment", "integer", "sentiment, as received", alias="m"),
            make_expression(
                "file",
                "text",
                "CASE WHEN f.state = 'have' THEN f.path END",
                "path of the audio below `data_dir`; null if it is not stored",
            ),
            ViewColumn("file_state", "text", "f.state", "`wanted`, `have`, `failed` or `gone`"),
        ),
        "FROM monitors AS m LEFT JOIN _legs AS l ON l.leg_id = m.live_id"
        " LEFT JOIN _calls AS c ON c.id = l.call_id"
        " LEFT JOIN media AS f ON f.kind = 'recording' AND f.record_id = m.id",
        "recorded_at",
    ),
    View(
        "v_messages",
        "one row for each text message, from the list of the platform or from a webhook",
        (
            ViewColumn(
                "id", "integer", "m.sms_id", "id of the message; null if only a webhook has reported it"
            ),
            *make_time_columns("sent", "m.at", "time of the message", with_offset=True),
            make_expression("direction", "text", "m.direction", "`in` or `out`"),
            make_expression(
                "contact",
                "text",
                "CASE m.direction WHEN 'in' THEN m.sender ELSE m.receiver END",
                "digits of the outside number: `447700900101`, or the name that a sender has instead;"
                " `erased` after an erasure",
            ),
            make_expression(
                "contact_name",
                "text",
                "coalesce((SELECT n.name FROM _contact_numbers AS n WHERE n.e164 = '+' ||"
                " CASE m.direction WHEN 'in' THEN m.sender ELSE m.receiver END"
                " ORDER BY n.contact_id LIMIT 1),"
                " CASE m.direction WHEN 'in' THEN m.from_name ELSE m.to_name END)",
                "contact, or name from the platform",
            ),
            make_expression(
                "our_number",
                "text",
                "CASE m.direction WHEN 'in' THEN m.receiver ELSE m.sender END",
                "digits of the account's number",
            ),
            make_expression("text", "text", "m.text", "text"),
            make_expression("result", "text", "m.result", "result of the delivery, as received"),
            make_expression("user_id", "integer", "m.user_id", "`id` of `v_people`, as received"),
            make_expression("user_name", "text", _USER_NAME.format("m.user_id"), "person of the account"),
        ),
        "FROM _messages AS m",
        "sent_at",
    ),
    View(
        "v_people",
        "one row for each user of the phone system who is not deleted",
        (
            *make_columns("u", ("id", "integer", "id of the user")),
            make_expression("name", "text", _PERSON_NAME.format("u"), "first and last name"),
            make_field_column(_USERS, "first_name", "text", "first name", alias="u"),
            make_field_column(_USERS, "last_name", "text", "last name", alias="u"),
            make_field_column(_USERS, "email", "text", "e-mail address", alias="u"),
            make_field_column(_USERS, "ext", "text", "internal number", alias="u", name="extension"),
            make_field_column(
                _USERS, "cli", "text", "number shown to called parties", alias="u", name="caller_id"
            ),
            make_field_column(
                _USERS, "active", "integer", "1 if the user is active", alias="u", name="is_active"
            ),
            make_field_column(
                _USERS, "is_root", "integer", "1 for an administrator", alias="u", name="is_administrator"
            ),
            make_field_column(
                _USERS, "dnd", "integer", "1 if “do not disturb” is on", alias="u", name="do_not_disturb"
            ),
        ),
        "FROM users AS u WHERE u._missing_since IS NULL",
    ),
)
"""The views. Columns may be added; docs/sql.md#promise."""


def create_views(schema: Schema) -> None:
    """Create the views, and replace those of another version."""
    stored = dict(schema.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'view'").fetchall())
    for view in VIEWS:
        sql = view.build_sql()
        if stored.get(view.name) != sql:
            schema.execute(f"DROP VIEW IF EXISTS {view.name}")
            schema.execute(sql)


def render_tables() -> str:
    """Return the columns of all views as Markdown, for docs/sql.md."""
    lines = []
    for view in VIEWS:
        time = f" Filter by `{view.time}`." if view.time else ""
        lines += [f"### {view.name}", "", f"{view.about[0].upper()}{view.about[1:]}.{time}", ""]
        lines += ["| Column | Type | Content |", "|---|---|---|"]
        lines += [f"| `{column.name}` | {column.type} | {column.about} |" for column in view.columns]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(render_tables())
