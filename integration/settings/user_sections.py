"""Sections about users and clients: exports, REST API, dashboard, alerts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from integration.settings.section import SECRET, Section
from integration.settings.values import (
    MIN_FREE_TEXT,
    AlertUrl,
    BasePath,
    Country,
    CrmUrl,
    ExportFolder,
    Host,
    Number,
    Origin,
    StopWord,
    Text,
    TimeZone,
    WholeNumber,
)


class Exports(Section):
    """Files written in the background: schedules and large exports."""

    folder: ExportFolder | None = Field(
        default=None,
        description="The only folder below which schedules may write: a path, or a URL of object storage such"
        " as s3://bucket/calls. If unset, exports/ in data_dir.",
        examples=["/srv/exports"],
    )
    keep_days: Number = Field(
        default=7, gt=0, description="Days that a large export is kept for its owner to download."
    )
    max_gb: Number = Field(
        default=10,
        gt=0,
        description="Disk budget of large exports in GB; the oldest are removed first."
        f" {MIN_FREE_TEXT} of disk always stay free.",
    )


class Outgoing(Section):
    """Requests to addresses that users enter: targets of exports, alerts and events."""

    allow_hosts: tuple[Host, ...] = Field(
        default=(),
        description="Hosts of this machine or of an internal network that targets of exports, alerts and"
        " events may name: names, or IP addresses. All other loopback, private, link-local and metadata"
        " addresses are refused.",
    )


class Events(Section):
    """Changes that programs follow, and outgoing webhooks."""

    keep_changes: WholeNumber = Field(
        default=200_000,
        ge=1000,
        description="Number of newest changes that are kept. A program that has missed more receives the"
        " present state of the calls instead.",
    )
    log_days: WholeNumber = Field(
        default=30, ge=1, description="Days that the log of outgoing webhooks is kept."
    )


class Facade(Section):
    """REST API for clients, in the form of the platform's API."""

    base_paths: tuple[BasePath, ...] = Field(
        default=("/v1.1", "/v1.2"),
        description="Paths of the facade. The path of platform.base_url is always one of them.",
    )
    writes: bool = Field(default=True, description="Pass writes through to the platform.")
    destructive: bool = Field(
        default=False, description="Allow deletes of entire collections and of the account."
    )
    platform_credentials: bool = Field(
        default=True, description="Accept the platform's own credentials too, verified with the platform."
    )
    offline_grace: WholeNumber = Field(
        default=86400,
        ge=0,
        description="Seconds that a verified platform credential stays valid for reads"
        " while the platform is unreachable.",
    )
    max_limit: WholeNumber = Field(
        default=5000,
        ge=1,
        le=1_000_000,
        description="Maximum limit of a page; raise it for clients that never request a second page.",
    )
    session_idle: WholeNumber = Field(
        default=900, ge=1, description="Seconds without a request after which a token of POST /login expires."
    )
    public_docs: bool = Field(
        default=False, description="Serve /docs and /openapi.json without a login and without a key."
    )
    gzip: bool = Field(
        default=False,
        description="Compress JSON responses for clients that accept gzip. Leave it off behind a proxy that"
        " compresses.",
    )
    cors_origins: tuple[Origin, ...] = Field(
        default=(), description="Origins of web pages that may call the facade; '*' allows all."
    )


class Dashboard(Section):
    """Web pages of the product."""

    timezone: TimeZone = Field(default="UTC", description="Display time zone, such as 'Europe/London'.")
    country: Country | None = Field(
        default=None,
        description="Country of numbers without an international prefix, two letters.",
        examples=["GB"],
    )
    agents_see: Literal["all", "own"] = Field(
        default="all", description="Calls that agents and viewers see: 'all' or only their 'own'."
    )
    second_factor: tuple[Literal["viewer", "agent", "supervisor", "admin", "exports"], ...] = Field(
        default=(),
        description="Roles that must have a second factor: any of 'viewer', 'agent', 'supervisor', 'admin',"
        " 'exports'. A user of such a role sets it up after the next login. Other users may have one.",
    )
    crm_url: CrmUrl | None = Field(
        default=None,
        description="Address of a caller in your CRM, opened by a button of calls and contacts. Placeholders:"
        " {e164}, {digits}, {national}, {name}, {contact_id}, {call_id}, {our_e164}. An http:// address needs"
        " its host in outgoing.allow_hosts.",
        examples=["https://crm.example.com/search?phone={e164}"],
    )
    crm_label: Annotated[Text, Field(max_length=30)] = Field(
        default="CRM", description="Text of this button.", examples=["Customers"]
    )
    crm_on_platform: bool = Field(
        default=False,
        description="Attach this address to inbound live calls on the platform, once for each call, so that"
        " the platform's own apps show it. An address that another program attached is not replaced.",
    )


class Alerts(Section):
    """Targets of notifications, and the events that cause them."""

    urls: tuple[AlertUrl, ...] = Field(
        default=(), repr=False, json_schema_extra=SECRET, description="Apprise URLs to notify."
    )
    events: tuple[Literal["missed_call", "voicemail", "sms", "sync_failing"], ...] = Field(
        default=(),
        description="Events to notify about: any of 'missed_call', 'voicemail', 'sms', 'sync_failing'.",
    )


class TextBack(Section):
    """Text messages to missed callers: limits of all rules together, and words that end them.

    The rules are entered on *Settings › Text back*.
    """

    per_hour: WholeNumber = Field(
        default=30, ge=1, description="Most messages in an hour. At this number all rules pause."
    )
    per_day: WholeNumber = Field(
        default=200, ge=1, description="Most messages in 24 hours. At this number all rules pause."
    )
    stop_words: Annotated[tuple[StopWord, ...], Field(min_length=1)] = Field(
        default=(
            *("STOP", "STOPALL", "STOPP", "UNSUBSCRIBE", "CANCEL", "END", "QUIT"),
            *("PARAR", "SAIR", "BAJA", "FIN", "ARRET"),
        ),
        description="Replies that opt a number out of text messages, if they contain nothing else. Case,"
        " accents, spaces and punctuation are ignored.",
    )
