"""Every setting, as one frozen object: TOML file + environment, checked before anything starts.

`load()` is the way in. Attributes are the keys of `config.example.toml` (`settings.platform.base_url`), but
for `smtp.from`, which Python reserves: `settings.smtp.from_`. `config.example.toml` is made from the
descriptions below (`manual.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from integration.settings.sources import build_settings, read_sources
from integration.settings.values import (
    AlertUrl,
    BasePath,
    Country,
    Email,
    FilePath,
    Host,
    Networks,
    Number,
    Origin,
    PlatformUserId,
    Port,
    SiteUrl,
    Text,
    ThresholdPair,
    TimeZone,
    Url,
    WebhookSecretList,
    WholeNumber,
    is_loopback,
)

SECRET: JsonDict = {"secret": True}
"""Marks a key whose value is never shown: not in a message, a log or a `repr`."""


class Section(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, populate_by_name=True, hide_input_in_errors=True
    )


class Platform(Section):
    """The hosted phone system: an API key (user_id and api_key), or else a login (email and password)."""

    base_url: Url = Field(
        description="Service root with its version segment.", examples=["https://api.example.com/v1.2"]
    )
    user_id: PlatformUserId | None = Field(
        default=None, description="User id the API key belongs to, a number or text.", examples=["100001"]
    )
    api_key: Text | None = Field(
        default=None, repr=False, json_schema_extra=SECRET, description="API key.", examples=["…"]
    )
    email: Email | None = Field(
        default=None,
        description="Login, where there is no API key. The token is kept alive and renewed.",
        examples=["admin@example.com"],
    )
    password: Text | None = Field(
        default=None,
        repr=False,
        json_schema_extra=SECRET,
        description="Password of the login.",
        examples=["…"],
    )
    timeout: Number = Field(
        default=30, gt=0, le=3600, description="Seconds for one request. Click-to-call may take 15."
    )
    max_concurrency: WholeNumber = Field(default=4, ge=1, le=64, description="Requests under way at once.")


class Server(Section):
    """Where the product listens, and how browsers and the platform reach it."""

    host: Host = Field(
        default="127.0.0.1", description="Address to listen on; 0.0.0.0 or :: for all of them."
    )
    port: Port = Field(default=8000, description="Port to listen on; 0 takes a free one and says which.")
    public_url: SiteUrl | None = Field(
        default=None,
        description="HTTPS address that the platform and browsers use, without a path.",
        examples=["https://calls.example.com"],
    )
    tls_cert: FilePath | None = Field(
        default=None,
        description="Certificate chain (PEM), to serve HTTPS directly.",
        examples=["/etc/ssl/switchroom.pem"],
    )
    tls_key: FilePath | None = Field(
        default=None,
        description="Private key (PEM) of the certificate, not encrypted.",
        examples=["/etc/ssl/private/switchroom.key"],
    )
    trusted_proxies: Networks = Field(
        default=(),
        description="Addresses or networks of proxies whose X-Forwarded-* headers are believed.",
    )


class Storage(Section):
    """Where the data lies."""

    data_dir: FilePath = Field(
        default=Path("data"),
        description="Folder of house.db, inbox.db, mirror.db, recordings/, voicemail/, backups/ and exports/."
        " A relative path begins where the product is started. It belongs to one account of one platform.",
    )


class Webhooks(Section):
    """The receiver of the platform's webhooks, at <public_url>/webhooks/<secret>."""

    secret: WebhookSecretList | None = Field(
        default=None,
        repr=False,
        json_schema_extra=SECRET,
        description="Last part of the receiver's path, or a list of two while rotating."
        " Generated at the first start and kept in data_dir where none is given.",
        examples=["43-random-characters"],
    )
    username: Text | None = Field(
        default=None,
        description="With password: Basic credentials are demanded as well.",
        examples=["platform"],
    )
    password: Text | None = Field(
        default=None, repr=False, json_schema_extra=SECRET, description="See username.", examples=["…"]
    )
    allow_from: Networks = Field(
        default=(), description="Addresses or networks that may deliver webhooks; empty means anyone."
    )


class Sync(Section):
    """How the mirror is kept true to what the platform's API lists."""

    recent_interval: WholeNumber = Field(default=60, ge=1, description="Seconds between look-backs.")
    full_interval: WholeNumber = Field(default=86400, ge=1, description="Seconds between complete walks.")
    overlap: WholeNumber = Field(
        default=3600, ge=0, description="Seconds re-read behind the high-water mark."
    )
    live_interval: WholeNumber = Field(
        default=15,
        ge=1,
        description="Seconds between polls of the live calls while calls are open or webhooks are silent.",
    )
    max_requests_per_minute: WholeNumber = Field(
        default=600,
        ge=1,
        description="Budget of the scheduler, lowered by itself when the platform complains."
        " What people ask for goes first.",
    )
    on_platform_delete: Literal["keep", "delete"] = Field(
        default="keep",
        description="What happens here to history that was deleted on the platform: 'keep' or 'delete'.",
    )


class Recordings(Section):
    """The archive of call recordings."""

    download: bool = Field(default=True, description="Download recordings.")
    max_gb: Number = Field(
        default=0,
        ge=0,
        description="Disk budget of the archive in GB; 0 is no bound. 2 GB are always left free.",
    )


class Voicemail(Section):
    """The archive of voicemail messages."""

    download: bool = Field(default=True, description="Download voicemail messages.")


class Faxes(Section):
    """The archive of faxes as PDF, where the platform has them."""

    download: bool = Field(default=True, description="Download faxes.")


class Calls(Section):
    """When calls stand out on the screen, and what is counted."""

    ring_seconds: ThresholdPair = Field(
        default=(20, 40), description="A ringing call turns [amber, red] after these seconds."
    )
    hold_seconds: ThresholdPair = Field(default=(60, 120), description="The same for a call on hold.")
    talk_seconds: ThresholdPair = Field(default=(600, 1800), description="The same for a conversation.")
    short_seconds: WholeNumber = Field(
        default=5, ge=0, description="A caller who hangs up earlier is shown, but not counted as missed."
    )
    service_level_seconds: WholeNumber = Field(
        default=20, ge=0, description="Answered within these seconds is answered in time."
    )
    callback_seconds: WholeNumber = Field(
        default=15, ge=0, description="An outbound conversation this long counts as called back."
    )


class Smtp(Section):
    """E-mail for password resets, alerts and scheduled exports."""

    host: Host | None = Field(
        default=None, description="Mail server; none means no e-mail.", examples=["smtp.example.com"]
    )
    port: Port | None = Field(default=None, description="Its port, usually 587, 465 or 25.", examples=[587])
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
        description="Encrypt by STARTTLS; without this key wherever the port is not 465.",
        examples=[True],
    )


class Backup(Section):
    """Scheduled backups."""

    every_hours: Number = Field(default=24, ge=0, description="Hours between backups; 0 makes none.")
    keep: WholeNumber = Field(default=7, ge=1, description="How many of them are kept.")
    dest: FilePath | None = Field(
        default=None,
        description="Folder they go to, instead of backups/ in data_dir.",
        examples=["/mnt/backup/switchroom"],
    )


class Exports(Section):
    """Files that are made without anybody waiting for them: schedules and large exports."""

    folder: FilePath | None = Field(
        default=None,
        description="Schedules may write below this folder only, instead of exports/ in data_dir.",
        examples=["/srv/exports"],
    )
    keep_days: Number = Field(
        default=7, gt=0, description="Days that a large export is kept for its owner to download."
    )
    max_gb: Number = Field(
        default=10,
        gt=0,
        description="Disk budget of large exports in GB; the oldest go first. 2 GB are always left free.",
    )


class Facade(Section):
    """The REST API of the platform, answered from here."""

    base_paths: tuple[BasePath, ...] = Field(
        default=("/v1.1", "/v1.2"),
        description="Where it answers; always also at the path of platform.base_url.",
    )
    writes: bool = Field(default=True, description="Pass writes through to the platform.")
    destructive: bool = Field(
        default=False, description="Allow deletes of whole collections and of the account."
    )
    platform_credentials: bool = Field(
        default=True, description="Accept the platform's own credentials, checked with it, beside local keys."
    )
    offline_grace: WholeNumber = Field(
        default=86400,
        ge=0,
        description="Seconds a checked platform credential stays good for reads"
        " while the platform can't be asked.",
    )
    max_limit: WholeNumber = Field(
        default=5000,
        ge=1,
        le=1_000_000,
        description="Most records of one page; raise it for clients that never ask for a second page.",
    )
    session_idle: WholeNumber = Field(
        default=900, ge=1, description="Seconds a token from POST /login lives without a request."
    )
    cors_origins: tuple[Origin, ...] = Field(
        default=(), description="Origins of web pages that may call the facade from a browser; '*' is all."
    )


class Dashboard(Section):
    """The pages people work with."""

    timezone: TimeZone = Field(default="UTC", description="Zone times are shown in, such as 'Europe/London'.")
    country: Country | None = Field(
        default=None, description="Country of phone numbers without an international prefix.", examples=["GB"]
    )
    agents_see: Literal["all", "own"] = Field(
        default="all", description="Which calls an agent sees: 'all' or 'own'."
    )


class Retention(Section):
    """How many days each kind of data is kept here; 0 keeps it for good."""

    cdrs_days: WholeNumber = Field(default=0, ge=0, description="Call detail records.")
    recordings_days: WholeNumber = Field(default=0, ge=0, description="Audio of recordings.")
    transcripts_days: WholeNumber = Field(default=0, ge=0, description="Transcripts and summaries.")
    sms_days: WholeNumber = Field(default=0, ge=0, description="Text messages.")
    voicemail_days: WholeNumber = Field(default=0, ge=0, description="Voicemail messages and their audio.")
    faxes_days: WholeNumber = Field(default=0, ge=0, description="Faxes.")
    chats_days: WholeNumber = Field(default=0, ge=0, description="Chat histories.")
    inbox_days: WholeNumber = Field(default=0, ge=0, description="Webhooks as received.")
    audit_days: WholeNumber = Field(default=0, ge=0, description="The audit of who did what.")
    logs_days: WholeNumber = Field(default=0, ge=0, description="Logs of alerts, exports and writes.")


class Alerts(Section):
    """Where to notify people, and of what."""

    urls: tuple[AlertUrl, ...] = Field(
        default=(), repr=False, json_schema_extra=SECRET, description="Addresses in the form of Apprise URLs."
    )
    events: tuple[Literal["missed_call", "voicemail", "sms", "sync_failing"], ...] = Field(
        default=(), description="Any of 'missed_call', 'voicemail', 'sms', 'sync_failing'."
    )


class Settings(Section):
    """All sections. Built by `load()`; a test may build one from a mapping by `Settings.model_validate`."""

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
    facade: Facade = Facade()
    dashboard: Dashboard = Dashboard()
    retention: Retention = Retention()
    alerts: Alerts = Alerts()


def load(config: Path | None, environ: Mapping[str, str]) -> Settings:
    """The settings from `config` (else $SWITCHROOM_CONFIG, else config.toml if there) and `environ`.

    Raises ConfigurationError with a line for every mistake there is, naming its key.
    """
    return build_settings(Settings, read_sources(Settings, config, environ))


def list_warnings(settings: Settings) -> list[str]:
    """What works but should be looked at, a line each, naming the key."""
    messages = []
    for key, url in (
        ("platform.base_url", settings.platform.base_url),
        ("server.public_url", settings.server.public_url),
    ):
        if url and url.startswith("http://") and not is_loopback(urlsplit(url).hostname or ""):
            messages.append(f"{key}: http:// sends credentials and calls unencrypted; use https://")
    if any(len(secret) < 22 for secret in settings.webhooks.secret or ()):
        messages.append("webhooks.secret: under 22 characters can be guessed; leave it out to have one made")
    return messages
