# Written by tools/admin from the table of operations.

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from pubqueue.admin.methods import BlockingSession, Done, Session

class AlertsRow(Struct, frozen=True):
    alert: str
    kind: str | None
    subject: str | None
    state: str | None
    since: datetime | None
    detail: str | None

class CancelRow(Struct, frozen=True):
    count: int | None
    in_flight: int | None
    missing: tuple[str, ...]

class ConnectionsRow(Struct, frozen=True):
    address: str
    protocol: str | None
    peer: str | None
    connected: datetime | None
    since: datetime | None
    tls: bool | None
    subscriptions: int | None
    nodes: tuple[str, ...]
    holds: int | None
    quiet: bool | None

class DeadRow(Struct, frozen=True):
    id: str
    died: datetime | None
    error: str | None
    failed: int | None
    last_holder: str | None
    origin: str | None
    size: int | None
    death: int | None
    published: datetime | None
    publisher: str | None

class DeathsRow(Struct, frozen=True):
    node: str
    reason: str | None
    count: int | None
    worker: str | None
    last: datetime | None
    first: datetime | None
    place: int | None

class DiscardRow(Struct, frozen=True):
    count: int | None
    in_flight: int | None
    missing: tuple[str, ...]
    through: str | None

class EndConnectionRow(Struct, frozen=True):
    count: int | None

class EndSubscriptionRow(Struct, frozen=True):
    count: int | None

class EventsRow(Struct, frozen=True):
    seq: int
    at: datetime | None
    type: str | None
    node: str | None
    item: str | None
    worker: str | None
    detail: str | None
    attempt: int | None
    publisher: str | None
    age_ms: int | None
    held_ms: int | None
    from_: str | None
    to: str | None

class ItemRow(Struct, frozen=True):
    at: datetime
    type: str | None
    worker: str | None
    detail: str | None
    node: str | None
    to: str | None
    attempt: int | None
    held_ms: int | None
    from_: str | None
    publisher: str | None
    seq: int | None
    payload: str | None

class ItemsRow(Struct, frozen=True):
    id: str
    state: str | None
    published: datetime | None
    priority: int | None
    acquired: int | None
    failed: int | None
    error: str | None
    holder: str | None
    size: int | None
    seq: int | None
    publisher: str | None
    deadline: datetime | None
    due: datetime | None
    expires: datetime | None
    delivered: datetime | None
    done: datetime | None
    worker: str | None
    waits_for: tuple[str, ...]
    since: datetime | None
    members: int | None
    dead_members: int | None
    open: bool | None

class MessagesDropRow(Struct, frozen=True):
    count: int | None

class MessagesListRow(Struct, frozen=True):
    account: str
    messages: int | None
    bytes: int | None
    until: datetime | None

class NodeDefinitionsRow(Struct, frozen=True):
    node: str
    settings: tuple[str, ...]
    affiliations: tuple[str, ...]
    whole: bool | None
    items: int | None

class NodeMembersRow(Struct, frozen=True):
    jid: str
    affiliation: str | None

class NodeSettingsRow(Struct, frozen=True):
    setting: str
    value: str | None

class OverviewRow(Struct, frozen=True):
    node: str
    problems: tuple[str, ...]
    state: str | None
    depth: int | None
    in_flight: int | None
    delayed: int | None
    dead: int | None
    oldest: datetime | None
    rate: float | None
    failing: float | None
    workers: int | None
    items: int | None
    bytes: int | None
    too_large: int | None
    place: str | None

class PeekRow(Struct, frozen=True):
    id: str | None
    state: str | None
    publisher: str | None
    published: datetime | None
    priority: int | None
    acquired: int | None
    failed: int | None
    error: str | None
    died: datetime | None
    origin: str | None
    last_holder: str | None
    holder: str | None
    deadline: datetime | None
    due: datetime | None
    expires: datetime | None
    delivered: datetime | None
    done: datetime | None
    worker: str | None
    headers: tuple[str, ...]
    size: int | None
    content: str | None
    payload: str | None
    waits_for: tuple[str, ...]
    signals: tuple[str, ...]

class PurgeRow(Struct, frozen=True):
    count: int | None

class QueuesRow(Struct, frozen=True):
    node: str
    state: str | None
    depth: int | None
    delayed: int | None
    in_flight: int | None
    dead: int | None
    oldest: datetime | None
    rate: float | None
    workers: int | None
    window_free: int | None
    dead_letter_node: str | None
    event_log: bool | None
    title: str | None
    too_large: int | None
    source: str | None
    filter: str | None
    feeds: int | None
    done: int | None
    left_out: int | None
    left_out_why: str | None
    items: int | None
    held: int | None

class QuietWorkerRow(Struct, frozen=True):
    count: int | None

class ReasonsRow(Struct, frozen=True):
    reason: str
    count: int | None
    last: datetime | None
    first: datetime | None

class RedriveRow(Struct, frozen=True):
    count: int | None
    through: str | None

class RegistrationDisableRow(Struct, frozen=True):
    count: int | None

class RegistrationEnableRow(Struct, frozen=True):
    count: int | None

class RegistrationEndRow(Struct, frozen=True):
    count: int | None

class RegistrationListRow(Struct, frozen=True):
    registration: str
    node: str | None
    account: str | None
    state: str | None
    failures: int | None
    error: str | None

class ReleaseRow(Struct, frozen=True):
    count: int | None

class ResumeWorkerRow(Struct, frozen=True):
    count: int | None

class ScheduleFireRow(Struct, frozen=True):
    id: str | None

class ScheduleListRow(Struct, frozen=True):
    schedule: str
    state: str | None
    node: str | None
    times: str | None
    next: datetime | None
    last: datetime | None
    error: str | None
    source: str | None
    cron: str | None
    zone: str | None
    missed: str | None
    priority: int | None
    ttl: float | None
    headers: tuple[str, ...]
    group: str | None
    by: str | None

class ScheduleShowRow(Struct, frozen=True):
    schedule: str | None
    state: str | None
    node: str | None
    next: datetime | None
    last: datetime | None
    error: str | None
    source: str | None
    cron: str | None
    zone: str | None
    missed: str | None
    priority: int | None
    ttl: float | None
    headers: tuple[str, ...]
    group: str | None
    by: str | None
    payload: str | None

class ServiceRow(Struct, frozen=True):
    version: str | None
    uptime: datetime | None
    started: datetime | None
    store: str | None
    nodes: int | None
    clock_ahead: int | None
    limits: tuple[str, ...]
    longest_round: float | None
    late: tuple[str, ...]
    accounts: int | None
    items: int | None
    bytes: int | None
    nodes_limit: int | None
    items_limit: int | None
    bytes_limit: int | None
    near: int | None
    nearest: tuple[str, ...]

class SignalRow(Struct, frozen=True):
    state: str | None
    wakes: bool | None
    again: bool | None

class SignalLinkRow(Struct, frozen=True):
    link: str | None
    until: datetime | None

class WorkersRow(Struct, frozen=True):
    jid: str
    state: str | None
    window: int | None
    in_flight: int | None
    unanswered: int | None
    items: tuple[str, ...]

class Admin(Session):
    async def affiliate(
        self,
        node: str,
        jid: str,
        *,
        affiliation: Literal["owner", "publisher", "publish-only", "member", "none", "outcast"]
        | None = None,
    ) -> Done: ...
    def alerts(
        self,
        *,
        match: str | None = None,
        state: Literal["any", "raised", "over", "failing"] | None = None,
        sort: Literal["name", "since"] | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> AsyncIterator[AlertsRow]: ...
    async def cancel(self, node: str, item: Sequence[str]) -> CancelRow: ...
    async def close_join(self, node: str, item: str) -> Done: ...
    def connections(
        self,
        *,
        account: str | None = None,
        subscribed: str | None = None,
        match: str | None = None,
        state: Literal["any", "idle", "busy", "quiet"] | None = None,
        sort: Literal["name", "holds", "connected"] | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> AsyncIterator[ConnectionsRow]: ...
    def dead(
        self,
        node: str,
        *,
        reason: str | None = None,
        match: str | None = None,
        sort: Literal["number", "priority", "failures", "size", "published"] | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> AsyncIterator[DeadRow]: ...
    def deaths(
        self,
        *,
        sort: Literal["count", "reason", "queue", "age", "worker"] | None = None,
        node: str | None = None,
        match: str | None = None,
        reason: str | None = None,
        after: int | None = None,
        max: int | None = None,
    ) -> AsyncIterator[DeathsRow]: ...
    async def discard(
        self, node: str, *, item: Sequence[str] | None = None, reason: str | None = None
    ) -> DiscardRow: ...
    async def end_connection(self, connection: str) -> EndConnectionRow: ...
    async def end_subscription(
        self, node: str, worker: str, *, release: bool | None = None
    ) -> EndSubscriptionRow: ...
    def events(
        self,
        *,
        node: str | None = None,
        item: str | None = None,
        after: int | None = None,
        until: int | None = None,
        max: int | None = None,
    ) -> AsyncIterator[EventsRow]: ...
    def item(
        self, node: str, item: str, *, after: int | None = None, max: int | None = None
    ) -> AsyncIterator[ItemRow]: ...
    def items(
        self,
        node: str,
        *,
        state: Literal["dead", "locked", "queued", "delayed", "held", "done", "all"] | None = None,
        reason: str | None = None,
        match: str | None = None,
        sort: Literal["number", "priority", "failures", "size", "published"] | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> AsyncIterator[ItemsRow]: ...
    async def messages_drop(self, account: str) -> MessagesDropRow: ...
    def messages_list(
        self,
        *,
        match: str | None = None,
        sort: Literal["name", "messages", "bytes", "until"] | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> AsyncIterator[MessagesListRow]: ...
    async def node_create(
        self, name: str, *, settings: Sequence[str] | Mapping[str, object] | None = None
    ) -> Done: ...
    def node_definitions(
        self,
        *,
        node: str | None = None,
        match: str | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> AsyncIterator[NodeDefinitionsRow]: ...
    async def node_delete(self, node: str) -> Done: ...
    def node_members(
        self,
        node: str,
        *,
        match: str | None = None,
        affiliation: Literal["any", "owner", "publisher", "publish-only", "member", "outcast"]
        | None = None,
        sort: Literal["name", "affiliation"] | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> AsyncIterator[NodeMembersRow]: ...
    async def node_set(self, node: str, settings: Sequence[str] | Mapping[str, object]) -> Done: ...
    def node_settings(
        self, node: str, *, max: int | None = None
    ) -> AsyncIterator[NodeSettingsRow]: ...
    def overview(
        self,
        *,
        sort: Literal[
            "problems",
            "name",
            "waiting",
            "in-flight",
            "delayed",
            "dead",
            "oldest",
            "rate",
            "subscribers",
            "items",
        ]
        | None = None,
        state: Literal[
            "any", "no-workers", "too-large", "failing", "old", "dead", "paused", "closed"
        ]
        | None = None,
        plain: bool | None = None,
        containing: str | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> AsyncIterator[OverviewRow]: ...
    async def pause(self, node: str) -> Done: ...
    async def pause_publishing(self, node: str) -> Done: ...
    async def peek(self, node: str, item: str) -> PeekRow: ...
    async def purge(self, node: str) -> PurgeRow: ...
    def queues(
        self,
        *,
        match: str | None = None,
        state: Literal["any", "running", "paused", "closed", "plain", "empty"] | None = None,
        sort: Literal[
            "name",
            "waiting",
            "in-flight",
            "delayed",
            "dead",
            "oldest",
            "rate",
            "subscribers",
            "items",
        ]
        | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> AsyncIterator[QueuesRow]: ...
    async def quiet_worker(self, node: str, worker: str) -> QuietWorkerRow: ...
    def reasons(
        self,
        node: str,
        *,
        match: str | None = None,
        sort: Literal["count", "last", "first"] | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> AsyncIterator[ReasonsRow]: ...
    async def redrive(
        self,
        node: str,
        *,
        item: Sequence[str] | None = None,
        reason: str | None = None,
        to: str | None = None,
    ) -> RedriveRow: ...
    async def registration_disable(
        self, node: str, registration: str
    ) -> RegistrationDisableRow: ...
    async def registration_enable(self, node: str, registration: str) -> RegistrationEnableRow: ...
    async def registration_end(self, node: str, registration: str) -> RegistrationEndRow: ...
    def registration_list(
        self,
        *,
        node: str | None = None,
        match: str | None = None,
        state: Literal["any", "active", "disabled", "failing"] | None = None,
        sort: Literal["name", "failures"] | None = None,
        reason: str | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> AsyncIterator[RegistrationListRow]: ...
    async def release(self, node: str, item: Sequence[str]) -> ReleaseRow: ...
    async def resume(self, node: str) -> Done: ...
    async def resume_publishing(self, node: str) -> Done: ...
    async def resume_worker(self, node: str, worker: str) -> ResumeWorkerRow: ...
    async def schedule_add(
        self,
        name: str,
        cron: str,
        node: str,
        payload: object,
        *,
        zone: str | None = None,
        missed: Literal["once", "skip", "all"] | None = None,
        priority: float | None = None,
        ttl: float | None = None,
        headers: Sequence[str] | Mapping[str, object] | None = None,
        group: str | None = None,
    ) -> Done: ...
    async def schedule_change(
        self,
        schedule: str,
        *,
        cron: str | None = None,
        zone: str | None = None,
        node: str | None = None,
        payload: object | None = None,
        missed: Literal["once", "skip", "all"] | None = None,
        priority: float | None = None,
        ttl: float | None = None,
        headers: Sequence[str] | Mapping[str, object] | None = None,
        group: str | None = None,
    ) -> Done: ...
    async def schedule_fire(self, schedule: str) -> ScheduleFireRow: ...
    def schedule_list(
        self,
        *,
        match: str | None = None,
        state: Literal["any", "running", "paused", "not-enabled", "failing"] | None = None,
        sort: Literal["name", "next", "last"] | None = None,
        reason: str | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> AsyncIterator[ScheduleListRow]: ...
    async def schedule_pause(self, schedule: str) -> Done: ...
    async def schedule_remove(self, schedule: str) -> Done: ...
    async def schedule_resume(self, schedule: str) -> Done: ...
    async def schedule_show(self, schedule: str) -> ScheduleShowRow: ...
    async def service(self) -> ServiceRow: ...
    async def signal(
        self, node: str, item: str, signal: str, *, data: str | None = None, id: str | None = None
    ) -> SignalRow: ...
    async def signal_link(
        self,
        node: str,
        item: str,
        signal: str,
        *,
        within: float | None = None,
        at: str | None = None,
    ) -> SignalLinkRow: ...
    def workers(
        self,
        node: str,
        *,
        match: str | None = None,
        state: Literal["any", "available", "away", "quiet"] | None = None,
        sort: Literal["name", "holds", "window", "unanswered"] | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> AsyncIterator[WorkersRow]: ...

class BlockingAdmin(BlockingSession):
    def affiliate(
        self,
        node: str,
        jid: str,
        *,
        affiliation: Literal["owner", "publisher", "publish-only", "member", "none", "outcast"]
        | None = None,
    ) -> Done: ...
    def alerts(
        self,
        *,
        match: str | None = None,
        state: Literal["any", "raised", "over", "failing"] | None = None,
        sort: Literal["name", "since"] | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> Iterator[AlertsRow]: ...
    def cancel(self, node: str, item: Sequence[str]) -> CancelRow: ...
    def close_join(self, node: str, item: str) -> Done: ...
    def connections(
        self,
        *,
        account: str | None = None,
        subscribed: str | None = None,
        match: str | None = None,
        state: Literal["any", "idle", "busy", "quiet"] | None = None,
        sort: Literal["name", "holds", "connected"] | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> Iterator[ConnectionsRow]: ...
    def dead(
        self,
        node: str,
        *,
        reason: str | None = None,
        match: str | None = None,
        sort: Literal["number", "priority", "failures", "size", "published"] | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> Iterator[DeadRow]: ...
    def deaths(
        self,
        *,
        sort: Literal["count", "reason", "queue", "age", "worker"] | None = None,
        node: str | None = None,
        match: str | None = None,
        reason: str | None = None,
        after: int | None = None,
        max: int | None = None,
    ) -> Iterator[DeathsRow]: ...
    def discard(
        self, node: str, *, item: Sequence[str] | None = None, reason: str | None = None
    ) -> DiscardRow: ...
    def end_connection(self, connection: str) -> EndConnectionRow: ...
    def end_subscription(
        self, node: str, worker: str, *, release: bool | None = None
    ) -> EndSubscriptionRow: ...
    def events(
        self,
        *,
        node: str | None = None,
        item: str | None = None,
        after: int | None = None,
        until: int | None = None,
        max: int | None = None,
    ) -> Iterator[EventsRow]: ...
    def item(
        self, node: str, item: str, *, after: int | None = None, max: int | None = None
    ) -> Iterator[ItemRow]: ...
    def items(
        self,
        node: str,
        *,
        state: Literal["dead", "locked", "queued", "delayed", "held", "done", "all"] | None = None,
        reason: str | None = None,
        match: str | None = None,
        sort: Literal["number", "priority", "failures", "size", "published"] | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> Iterator[ItemsRow]: ...
    def messages_drop(self, account: str) -> MessagesDropRow: ...
    def messages_list(
        self,
        *,
        match: str | None = None,
        sort: Literal["name", "messages", "bytes", "until"] | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> Iterator[MessagesListRow]: ...
    def node_create(
        self, name: str, *, settings: Sequence[str] | Mapping[str, object] | None = None
    ) -> Done: ...
    def node_definitions(
        self,
        *,
        node: str | None = None,
        match: str | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> Iterator[NodeDefinitionsRow]: ...
    def node_delete(self, node: str) -> Done: ...
    def node_members(
        self,
        node: str,
        *,
        match: str | None = None,
        affiliation: Literal["any", "owner", "publisher", "publish-only", "member", "outcast"]
        | None = None,
        sort: Literal["name", "affiliation"] | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> Iterator[NodeMembersRow]: ...
    def node_set(self, node: str, settings: Sequence[str] | Mapping[str, object]) -> Done: ...
    def node_settings(self, node: str, *, max: int | None = None) -> Iterator[NodeSettingsRow]: ...
    def overview(
        self,
        *,
        sort: Literal[
            "problems",
            "name",
            "waiting",
            "in-flight",
            "delayed",
            "dead",
            "oldest",
            "rate",
            "subscribers",
            "items",
        ]
        | None = None,
        state: Literal[
            "any", "no-workers", "too-large", "failing", "old", "dead", "paused", "closed"
        ]
        | None = None,
        plain: bool | None = None,
        containing: str | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> Iterator[OverviewRow]: ...
    def pause(self, node: str) -> Done: ...
    def pause_publishing(self, node: str) -> Done: ...
    def peek(self, node: str, item: str) -> PeekRow: ...
    def purge(self, node: str) -> PurgeRow: ...
    def queues(
        self,
        *,
        match: str | None = None,
        state: Literal["any", "running", "paused", "closed", "plain", "empty"] | None = None,
        sort: Literal[
            "name",
            "waiting",
            "in-flight",
            "delayed",
            "dead",
            "oldest",
            "rate",
            "subscribers",
            "items",
        ]
        | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> Iterator[QueuesRow]: ...
    def quiet_worker(self, node: str, worker: str) -> QuietWorkerRow: ...
    def reasons(
        self,
        node: str,
        *,
        match: str | None = None,
        sort: Literal["count", "last", "first"] | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> Iterator[ReasonsRow]: ...
    def redrive(
        self,
        node: str,
        *,
        item: Sequence[str] | None = None,
        reason: str | None = None,
        to: str | None = None,
    ) -> RedriveRow: ...
    def registration_disable(self, node: str, registration: str) -> RegistrationDisableRow: ...
    def registration_enable(self, node: str, registration: str) -> RegistrationEnableRow: ...
    def registration_end(self, node: str, registration: str) -> RegistrationEndRow: ...
    def registration_list(
        self,
        *,
        node: str | None = None,
        match: str | None = None,
        state: Literal["any", "active", "disabled", "failing"] | None = None,
        sort: Literal["name", "failures"] | None = None,
        reason: str | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> Iterator[RegistrationListRow]: ...
    def release(self, node: str, item: Sequence[str]) -> ReleaseRow: ...
    def resume(self, node: str) -> Done: ...
    def resume_publishing(self, node: str) -> Done: ...
    def resume_worker(self, node: str, worker: str) -> ResumeWorkerRow: ...
    def schedule_add(
        self,
        name: str,
        cron: str,
        node: str,
        payload: object,
        *,
        zone: str | None = None,
        missed: Literal["once", "skip", "all"] | None = None,
        priority: float | None = None,
        ttl: float | None = None,
        headers: Sequence[str] | Mapping[str, object] | None = None,
        group: str | None = None,
    ) -> Done: ...
    def schedule_change(
        self,
        schedule: str,
        *,
        cron: str | None = None,
        zone: str | None = None,
        node: str | None = None,
        payload: object | None = None,
        missed: Literal["once", "skip", "all"] | None = None,
        priority: float | None = None,
        ttl: float | None = None,
        headers: Sequence[str] | Mapping[str, object] | None = None,
        group: str | None = None,
    ) -> Done: ...
    def schedule_fire(self, schedule: str) -> ScheduleFireRow: ...
    def schedule_list(
        self,
        *,
        match: str | None = None,
        state: Literal["any", "running", "paused", "not-enabled", "failing"] | None = None,
        sort: Literal["name", "next", "last"] | None = None,
        reason: str | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> Iterator[ScheduleListRow]: ...
    def schedule_pause(self, schedule: str) -> Done: ...
    def schedule_remove(self, schedule: str) -> Done: ...
    def schedule_resume(self, schedule: str) -> Done: ...
    def schedule_show(self, schedule: str) -> ScheduleShowRow: ...
    def service(self) -> ServiceRow: ...
    def signal(
        self, node: str, item: str, signal: str, *, data: str | None = None, id: str | None = None
    ) -> SignalRow: ...
    def signal_link(
        self,
        node: str,
        item: str,
        signal: str,
        *,
        within: float | None = None,
        at: str | None = None,
    ) -> SignalLinkRow: ...
    def workers(
        self,
        node: str,
        *,
        match: str | None = None,
        state: Literal["any", "available", "away", "quiet"] | None = None,
        sort: Literal["name", "holds", "window", "unanswered"] | None = None,
        after: str | None = None,
        max: int | None = None,
    ) -> Iterator[WorkersRow]: ...
