"""All settings as one frozen object, validated before the start.

`load()` reads them from a TOML file and the environment. Attributes have the names of the keys in
`config.example.toml` (`settings.platform.base_url`), except `smtp.from`, a reserved word of Python:
`settings.smtp.from_`. `manual.py` generates `config.example.toml` from the descriptions below.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from integration.core.errors import ConfigurationError
from integration.settings.api_paths import OWN_API_PATH, find_conflicting_base_path
from integration.settings.sources import build_settings, read_sources
from integration.settings.values import (
    MIN_FREE_TEXT,
    AlertUrl,
    BasePath,
    Country,
    CrmUrl,
    Email,
    ExportFolder,
    FilePath,
    Host,
    LabelName,
    ListenAddress,
    Networks,
    Number,
    Origin,
    PlatformUserId,
    Port,
    SiteUrl,
    StopWord,
    SyslogTarget,
    Text,
    ThresholdPair,
    TimeZone,
    Url,
    UsualHours,
    WebhookSecretList,
    WholeNumber,
    is_loopback,
)

# Without this, the first model reads the metadata of every installed distribution in search of plugins.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

SECRET: JsonDict = {"secret": True}
"""Mark of keys whose values never appear in messages, logs or a `repr`."""


class Section(BaseModel):
    """One section: unknown keys are mistakes, and messages never contain values.

    A section is a frozen model with one field for each key. The description of a field becomes the text of
    `config.example.toml`; its example is shown there if the key has no default.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, populate_by_name=True, hide_input_in_errors=True
    )


class Platform(Section):
    """The hosted phone system: API key (user_id, api_key) or login (email, password)."""

    base_url: Url = Field(
        description="Service root including the version segment.", examples=["https://api.example.com/v1.2"]
    )
    user_id: PlatformUserId | None = Field(
        default=None, description="User id of the API key, a number or text.", examples=["100001"]
    )
    api_key: Text | None = Field(
        default=None, repr=False, json_schema_extra=SECRET, description="API key.", examples=["…"]
    )
    email: Email | None = Field(
        default=None,
        description="Login e-mail, instead of an API key. The token is kept alive and renewed.",
        examples=["admin@example.com"],
    )
    password: Text | None = Field(
        default=None, repr=False, json_schema_extra=SECRET, description="Login password.", examples=["…"]
    )
    ca_file: FilePath | None = Field(
        default=None,
        description="Certificates (PEM) of the authorities of the platform's certificate, instead of those of"
        " the system. Required only for a private authority.",
        examples=["/etc/ssl/private-ca.pem"],
    )
    timeout: Number = Field(
        default=30, gt=0, le=3600, description="Seconds for one request. Click-to-call may take 15 s."
    )
    max_concurrency: WholeNumber = Field(default=4, ge=1, le=64, description="Number of concurrent requests.")


class Server(Section):
    """Listening address, and the public address for browsers and the platform."""

    host: Host = Field(
        default="127.0.0.1", description="Listening address; 0.0.0.0 or :: for all addresses of the host."
    )
    port: Port = Field(default=8000, description="Listening port; 0 selects a free port and prints it.")
    public_url: SiteUrl | None = Field(
        default=None,
        description="HTTPS address that the platform and browsers use, without a path.",
        examples=["https://calls.example.com"],
    )
    tls_cert: FilePath | None = Field(
        default=None, description="Certificates (PEM), to serve HTTPS.", examples=["/etc/ssl/switchroom.pem"]
    )
    tls_key: FilePath | None = Field(
        default=None, description="Private key (PEM), not encrypted.", examples=["/etc/ssl/private/key.pem"]
    )
    trusted_proxies: Networks = Field(
        default=(), description="Addresses or networks of proxies whose X-Forwarded-* headers are trusted."
    )
    metrics_listen: ListenAddress | None = Field(
        default=None,
        description="Address and port of /metrics without a key, for a monitoring system: plain HTTP, which"
        " must not be reachable from outside. /metrics at port needs a key if public_url is set.",
        examples=["127.0.0.1:9100"],
    )


class Storage(Section):
    """Location of the data."""

    data_dir: FilePath = Field(
        default=Path("data"),
        description="Folder of house.db, inbox.db, mirror.db, recordings/, voicemail/, backups/ and exports/."
        " A relative path starts at the working directory."
        " The folder belongs to one account of one platform.",
    )
    keep_before_restore_days: WholeNumber = Field(
        default=7, ge=0, description="Days to keep data that a restore moved aside; 0 keeps it permanently."
    )


class Webhooks(Section):
    """Receiver of the platform's webhooks, at <public_url>/webhooks/<secret>."""

    secret: WebhookSecretList | None = Field(
        default=None,
        repr=False,
        json_schema_extra=SECRET,
        description="Last segment of the receiver's path, or a list of two during a rotation."
        " If unset, the secret is generated at the first start and stored in data_dir.",
        examples=["43-random-characters"],
    )
    username: Text | None = Field(
        default=None, description="Basic user name; required with password if set.", examples=["platform"]
    )
    password: Text | None = Field(
        default=None, repr=False, json_schema_extra=SECRET, description="See username.", examples=["…"]
    )
    allow_from: Networks = Field(
        default=(), description="Addresses or networks that may deliver webhooks; empty allows any address."
    )


class Sync(Section):
    """Synchronisation of the mirror with the platform's API."""

    recent_interval: WholeNumber = Field(default=60, ge=1, description="Seconds between incremental syncs.")
    full_interval: WholeNumber = Field(default=86400, ge=1, description="Seconds between full syncs.")
    overlap: WholeNumber = Field(
        default=3600, ge=0, description="Seconds read again before the high-water mark."
    )
    live_interval: WholeNumber = Field(
        default=15,
        ge=1,
        description="Seconds between polls of the live calls while calls are open or webhooks are silent.",
    )
    max_requests_per_minute: WholeNumber = Field(
        default=600,
        ge=1,
        description="Request budget of the scheduler. It shrinks automatically on 429, 5xx and malformed"
        " responses. Requests made for users take precedence.",
    )
    on_platform_delete: Literal["keep", "delete"] = Field(
        default="keep",
        description="Treatment of local history that was deleted on the platform: 'keep' or 'delete'.",
    )


class Recordings(Section):
    """Archive of call recordings."""

    download: bool = Field(default=True, description="Download recordings.")
    max_gb: Number = Field(
        default=0,
        ge=0,
        description="Disk budget of the archive in GB; 0 is unlimited."
        f" {MIN_FREE_TEXT} of disk always stay free.",
    )


class Voicemail(Section):
    """Archive of voicemail messages."""

    download: bool = Field(default=True, description="Download voicemail messages.")


class Faxes(Section):
    """Archive of faxes as PDF, if the platform has them."""

    download: bool = Field(default=True, description="Download faxes.")


class Calls(Section):
    """Thresholds for highlighting live calls and for counting calls."""

    ring_seconds: ThresholdPair = Field(
        default=(20, 40), description="Seconds after which a ringing call turns [amber, red]."
    )
    hold_seconds: ThresholdPair = Field(default=(60, 120), description="The same for a call on hold.")
    talk_seconds: ThresholdPair = Field(default=(600, 1800), description="The same for a conversation.")
    short_seconds: WholeNumber = Field(
        default=5,
        ge=0,
        description="A caller who hangs up in fewer seconds is shown, but is not a missed call.",
    )
    service_level_seconds: WholeNumber = Field(
        default=20, ge=0, description="Calls answered within this many seconds meet the service level."
    )
    service_level_target: WholeNumber = Field(
        default=80, ge=0, le=100, description="Percentage of calls that should meet the service level."
    )
    missed_target: WholeNumber = Field(
        default=10, ge=0, le=100, description="Highest percentage of inbound calls that may be missed."
    )
    callback_seconds: WholeNumber = Field(
        default=15, ge=0, description="Seconds of outbound talk time that count as a call-back."
    )
    pickup_code: str = Field(
        default="",
        max_length=10,
        pattern=r"^[0-9*#]*$",
        description="Code that answers a ringing phone of the own pickup group, such as *8. Live shows it to"
        " the people of that group. Empty: nothing is shown.",
    )
    usual_hours: UsualHours = Field(
        default=("Mon-Fri 08:00-18:00",),
        description="Opening hours in dashboard.timezone that the first start enters on *Settings › Opening"
        " hours* for all lines. Later changes of this setting have no effect: change the page. Without hours"
        " every line is always open.",
    )
    outcomes: tuple[LabelName, ...] = Field(
        default=(),
        description="Labels that Live offers after a call, instead of the account's call labels.",
        examples=[["Solved", "Order", "Call again"]],
    )


class Smtp(Section):
    """E-mail for password resets, alerts and scheduled exports."""

    host: Host | None = Field(
        default=None,
        description="Mail server, instead of one entered on *Settings › Connection*.",
        examples=["smtp.example.com"],
    )
    port: Port | None = Field(
        default=None, description="Port, usually 587, 465 or 25. If unset, 587.", examples=[587]
    )
    user: Text | None = Field(
        default=None, description="User name at the mail server.", examples=["switchroom"]
    )
    password: Text | None = Field(
        default=None,
        repr=False,
        json_schema_extra=SECRET,
        description="Password at the mail server.",
        examples=["…"],
    )
    from_: Email | None = Field(
        default=None, alias="from", description="Sender of the e-mails.", examples=["calls@example.com"]
    )
    starttls: bool | None = Field(
        default=None,
        description="Encrypt with STARTTLS. If unset, STARTTLS is used on every port except 465.",
        examples=[True],
    )


class Backup(Section):
    """Scheduled backups."""

    every_hours: Number = Field(default=24, ge=0, description="Hours between backups; 0 disables them.")
    keep: WholeNumber = Field(default=7, ge=1, description="Number of backups that are kept.")
    dest: FilePath | None = Field(
        default=None,
        description="Folder for backups. If unset, backups/ in data_dir.",
        examples=["/mnt/backup/switchroom"],
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


class Audit(Section):
    """Audit log: actions of users and clients."""

    syslog: SyslogTarget | None = Field(
        default=None,
        description="Copy each entry to syslog: path of a local socket, udp://HOST:PORT or tcp://HOST:PORT.",
        examples=["udp://logs.example.com:514"],
    )


class Retention(Section):
    """Days to keep each kind of data; 0 keeps the data permanently."""

    cdrs_days: WholeNumber = Field(default=0, ge=0, description="Call detail records.")
    recordings_days: WholeNumber = Field(default=0, ge=0, description="Audio of recordings.")
    transcripts_days: WholeNumber = Field(default=0, ge=0, description="Transcripts and summaries.")
    sms_days: WholeNumber = Field(default=0, ge=0, description="Text messages.")
    voicemail_days: WholeNumber = Field(default=0, ge=0, description="Voicemail messages and their audio.")
    faxes_days: WholeNumber = Field(default=0, ge=0, description="Faxes.")
    chats_days: WholeNumber = Field(default=0, ge=0, description="Chat histories.")
    inbox_days: WholeNumber = Field(default=0, ge=0, description="Webhooks as received.")
    audit_days: WholeNumber = Field(default=0, ge=0, description="The audit log.")
    logs_days: WholeNumber = Field(default=0, ge=0, description="Notification, export and write logs.")


class Log(Section):
    """Log on standard error.

    In the journal of systemd each line has its priority.
    """

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info",
        description="Least severe level that is logged: 'debug', 'info', 'warning' or 'error'.",
    )
    format: Literal["text", "json"] = Field(
        default="text",
        description="'text', or 'json': one object per line with time, level, logger and message.",
    )


class Settings(Section):
    """All sections of the configuration.

    `load()` builds the object; tests may build one from a mapping with `Settings.model_validate`.
    """

    platform: Platform
    server: Server = Server()
    storage: Storage = Storage()
    webhooks: Webhooks = Webhooks()
    sync: Sync = Sync()
    recordings: Recordings = Recordings()
    voicemail: Voicemail = Voicemail()
    faxes: Faxes = Faxes()
    calls: Calls = Calls()
    smtp: Smtp = Smtp()
    backup: Backup = Backup()
    exports: Exports = Exports()
    outgoing: Outgoing = Outgoing()
    events: Events = Events()
    facade: Facade = Facade()
    dashboard: Dashboard = Dashboard()
    retention: Retention = Retention()
    audit: Audit = Audit()
    alerts: Alerts = Alerts()
    text_back: TextBack = TextBack()
    log: Log = Log()


def load(config: Path | None, environ: Mapping[str, str], *, needs_credentials: bool = True) -> Settings:
    """Load the settings from a TOML file and the environment.

    The file is `config`, else $SWITCHROOM_CONFIG, else config.toml if it exists. Variables in `environ`
    override the file. Without `needs_credentials`, platform credentials may be missing: commands for local
    data run without them. Raises ConfigurationError with one line per mistake, each naming its key.
    """
    sources = read_sources(Settings, config, environ)
    settings = build_settings(Settings, sources, needs_credentials=needs_credentials)
    crm_url = urlsplit(settings.dashboard.crm_url or "")
    # Here, because it compares two parsed values; `related_keys` sees values as they were entered.
    if crm_url.scheme == "http" and crm_url.hostname not in settings.outgoing.allow_hosts:
        raise ConfigurationError(
            [
                "dashboard.crm_url: http:// is not encrypted; use https://, or add"
                f" {crm_url.hostname} to outgoing.allow_hosts"
            ]
        )
    if settings.dashboard.crm_on_platform and settings.dashboard.crm_url is None:
        raise ConfigurationError(["dashboard.crm_on_platform: set dashboard.crm_url too"])
    return settings


def list_warnings(settings: Settings) -> list[str]:
    """List warnings about valid but risky values, one per key."""
    messages = []
    for key, url in (
        ("platform.base_url", settings.platform.base_url),
        ("server.public_url", settings.server.public_url),
    ):
        if url and url.startswith("http://") and not is_loopback(urlsplit(url).hostname or ""):
            messages.append(f"{key}: http:// sends credentials and calls unencrypted; use https://")
    if any(len(secret) < 22 for secret in settings.webhooks.secret or ()):
        messages.append("webhooks.secret: under 22 characters can be guessed; omit the key to generate one")
    path = find_conflicting_base_path(settings)
    if path is not None:
        messages.append(
            f"facade.base_paths: {path} has precedence, so the own API below {OWN_API_PATH} is off"
        )
    return messages
