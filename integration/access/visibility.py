"""Visibility: the collections, records and fields that a viewer sees.

| Role | Sees |
|---|---|
| viewer, agent | people, numbers, contacts, queues, groups, calls and messages as on other pages |
| supervisor, admin | everything: routing, tracking, widgets, roles, reports, records, `/me` |
| exports | exports of calls, missed calls and CDRs, with the right *recordings* of audio too; no collection |

Raw records and the settings of a platform user (voicemail, forwarding, private numbers: fields that only the
user's own path returns) are visible to supervisors and administrators only. With `dashboard.agents_see: own`
history is limited to the viewer's own records, and a collection that cannot be limited is closed. PINs,
passwords and keys are hidden from every role.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from integration.access import user_scope as user_scopes
from integration.access.keys import Key
from integration.access.rights import EXPORTS_ONLY, RIGHTS, Role, has
from integration.catalogue import RESOURCES, TRANSCRIPT_FIELDS, get_resource
from integration.catalogue.collection_titles import get_title
from integration.catalogue.shapes import Resource
from integration.core.errors import SwitchroomError
from integration.mirror.calls.schema import CALLS
from integration.mirror.query import browse
from integration.mirror.query.query import Query
from integration.mirror.records import subresources
from integration.mirror.records.masking import list_hidden_fields

if TYPE_CHECKING:
    from integration.access.people import Person
    from integration.mirror.page_queries.history import CallFilter

AgentsSee = Literal["all", "own"]

NO_USER_ID = -1
"""User scope of viewers without a platform user under `dashboard.agents_see: own`.

No platform user has this id.
"""

FULL_ACCESS_ROLE: Role = "supervisor"
"""Lowest role that sees all fields of records, and raw records."""


AUDIO_COLLECTIONS = frozenset({"monitors", "voicemessages"})
"""Collections that a user with the role EXPORTS_ONLY exports with the right `recordings`."""


class NotAllowed(SwitchroomError):
    """The viewer may not export.

    The message states the missing right or role.
    """


@dataclass(frozen=True, slots=True)
class Visibility:
    """Role, rights and limits of a viewer.

    Viewers with equal visibilities see equal pages and buttons. `user_scope` is the platform user to whose
    records the viewer is limited; None for no limit. Collections that are shared are exempt if `sees_shared`.
    `allowed_collections`: collections of a key, None for all. `can_read_transcripts`: False for dashboard
    users without the right `recordings`.
    """

    role: Role
    rights: frozenset[str]
    user_scope: int | None = None
    sees_shared: bool = True
    allowed_collections: frozenset[str] | None = None
    can_read_transcripts: bool = True

    # --- collections ---------------------------------------------------------------------------------

    @property
    def collections(self) -> frozenset[str]:
        """The mirrored collections that the viewer can open."""
        return frozenset(row.collection for row in RESOURCES if row.is_listed and self.can_open(row))

    def can_open(self, resource: Resource) -> bool:
        """Return whether the viewer sees any records of this collection."""
        if not self._is_in_audience(resource):
            return False
        return self.scope_of(resource) is None or resource.user_key is not None

    def _is_in_audience(self, resource: Resource) -> bool:
        is_allowed = self.allowed_collections is None or resource.collection in self.allowed_collections
        return is_allowed and has(self, resource.audience)

    # --- records -------------------------------------------------------------------------------------

    def scope_of(self, resource: Resource) -> int | None:
        """Return the viewer's user scope for this collection, None for no limit."""
        return None if self.sees_shared and resource.is_shared else self.user_scope

    def limited_to(self, user_id: int | None) -> Visibility:
        """Return this visibility with a user scope for every collection.

        `user_id`: None removes the scope.
        """
        return replace(self, user_scope=user_id, sees_shared=user_id is None)

    def restrict_query(self, connection: sqlite3.Connection, query: Query) -> Query:
        """Limit a query to the records that the viewer sees."""
        scope = self.scope_of(query.resource)
        if scope is None:
            return query
        return query.with_conditions(user_scopes.filter_for(connection, query.resource, scope))

    def collection_state(self, connection: sqlite3.Connection, resource: Resource) -> browse.CollectionState:
        """Return the state of a collection.

        Its counts include only records that the viewer sees.
        """
        return browse.get_collection_state(connection, self.restrict_query(connection, Query(resource)))

    # --- calls -----------------------------------------------------------------------------------

    def can_see_call(self, user_id: int | None) -> bool:
        """Return whether the viewer sees a call.

        `user_id`: its platform user, None for a call of a group.
        """
        return self.user_scope in (None, user_id)

    def can_see_callback(self, user_id: int | None) -> bool:
        """Return whether the viewer sees the call-back item of a missed call.

        `user_id`: platform user of the call. A missed call of a group has none, and every viewer sees its
        item.
        """
        return user_id is None or self.can_see_call(user_id)

    def restrict_search(self, call_filter: CallFilter) -> CallFilter:
        """Limit a search of calls to texts that the viewer reads."""
        terms = call_filter.search_terms
        if self.can_read_transcripts or terms is None:
            return call_filter
        return replace(call_filter, search_terms=replace(terms, names_only=True))

    # --- fields --------------------------------------------------------------------------------------

    def can_see_raw(self, resource: Resource) -> bool:
        """Return whether records are shown as received, with undocumented fields."""
        return has(self, FULL_ACCESS_ROLE) and not self._list_transcript_fields(resource)

    def can_see_item_fields(self, resource: Resource) -> bool:
        """Return whether fields are shown that only a record's own path returns."""
        return has(self, FULL_ACCESS_ROLE) or not resource.has_item_only_fields

    def hidden_fields(self, resource: Resource) -> frozenset[str]:
        """Return fields that must not be shown, searched, filtered or sorted by."""
        hidden_fields = list_hidden_fields(resource) | self._list_transcript_fields(resource)
        if not self.can_see_item_fields(resource):
            hidden_fields |= {field.name for field in resource.fields if field.item_only}
        return hidden_fields

    def _list_transcript_fields(self, resource: Resource) -> frozenset[str]:
        """Return the fields that are hidden without `can_read_transcripts`."""
        return frozenset(() if self.can_read_transcripts else TRANSCRIPT_FIELDS.get(resource.table, ()))

    # --- exports -------------------------------------------------------------------------------------

    def can_export(self, target: Resource) -> bool:
        """Return whether the viewer may export `target`."""
        try:
            self.check_export(target)
        except NotAllowed:
            return False
        return True

    def check_export(self, target: Resource, right: str | None = None) -> None:
        """Raise NotAllowed if the viewer may not export `target`.

        `right`: a right that the format requires in addition to `export`.
        """
        for required in ("export", *((right,) if right else ())):
            if not has(self, required):
                raise NotAllowed(
                    f"You don’t have permission for this export (right “{required}”)."
                    " An administrator can grant it."
                )
        if self.role == EXPORTS_ONLY:
            is_of_calls = target.collection in ("cdrs", CALLS.collection) and target != subresources.NOTE_ROWS
            grant = "recordings" if target.collection in AUDIO_COLLECTIONS else "other_exports"
            if not is_of_calls and not has(self, grant):
                raise NotAllowed(
                    "Your role exports calls, missed calls and CDRs. This export requires the right"
                    f" “{grant}”. An administrator can grant it."
                )
            return
        resource = required_resource(target)
        if not self._is_in_audience(resource):
            raise NotAllowed(f"{get_title(resource)} are visible to supervisors and administrators only.")
        if not self.can_open(resource):
            raise NotAllowed(
                "You can see only your own calls. This export contains records of other users."
                " A supervisor can export it."
            )


UNLIMITED = Visibility("admin", frozenset(RIGHTS))
"""Visibility of the command line and of an administrator's platform credentials."""


def of(viewer: Person | Key | None, agents_see: AgentsSee = "all") -> Visibility:
    """Return the visibility of a dashboard user or of a local key.

    `viewer`: None for other clients, which are UNLIMITED. `agents_see` is the setting `dashboard.agents_see`.
    Under `own` viewers and agents see the records of their own platform user, and none if they have no
    platform user.
    """
    if viewer is None:
        return UNLIMITED
    if isinstance(viewer, Key):
        allowed = None if viewer.collections is None else frozenset(viewer.collections)
        limited = UNLIMITED.limited_to(viewer.platform_user_id)
        return replace(limited, allowed_collections=allowed, rights=viewer.limits.rights)
    visibility = Visibility(viewer.role, viewer.rights, can_read_transcripts=has(viewer, "recordings"))
    if agents_see == "all" or has(viewer, "supervisor") or viewer.role == EXPORTS_ONLY:
        return visibility
    user_id = NO_USER_ID if viewer.platform_user_id is None else viewer.platform_user_id
    return replace(visibility, user_scope=user_id)


def required_resource(target: Resource) -> Resource:
    """Return the resource whose read access `target` requires.

    Calls are computed from CDRs. Notes belong to CDRs, chat messages to chats.
    """
    if target in (CALLS, subresources.NOTE_ROWS):
        return get_resource("cdrs")
    return get_resource("chats") if target is subresources.MESSAGE_ROWS else target
