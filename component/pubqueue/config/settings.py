"""The configuration: one frozen object, and what follows from its values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from slixmpp.jid import JID

from pubqueue.accounts.credentials import Role
from pubqueue.config.alerts import AlertSettings
from pubqueue.faces.checks import ConfigError, networks
from pubqueue.faces.grpc.settings import GrpcSettings
from pubqueue.faces.listener.tls import is_port
from pubqueue.faces.rest.settings import RestSettings
from pubqueue.faces.stomp.settings import StompSettings
from pubqueue.faces.xmpp.settings import QosSettings
from pubqueue.model.entities import MAX_ID_LENGTH, Jid, seconds
from pubqueue.model.records import USUAL, Quota, Quotas
from pubqueue.model.schedules import MAX_NAME_LENGTH
from pubqueue.model.transactions import DEFAULTS, Limits
from pubqueue.rules.access import AutoCreation, CreationPolicy
from pubqueue.rules.presence import USUAL as SILENCE
from pubqueue.rules.subscribe import MAX_SUBSCRIPTIONS
from pubqueue.rules.validity import MAX_SPAN
from pubqueue.stores import file_of, shown_address, store_at
from pubqueue.stores.reading_errors import why

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

    from pubqueue.engine.ports import Store


class NodeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node that is created at the start, or changed to match the declaration; what is not named stays as its owners left it."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ID_LENGTH)]
    """The NodeID."""
    queueing: bool = False
    """Whether it is a work queue (`x-queueing#enabled`)."""
    owners: tuple[str, ...] = ()
    """Bare JIDs that own it. If any are named, there are no other owners. Administrators may do everything in any
    case."""
    publishers: tuple[str, ...] = ()
    """Bare JIDs that may publish to it."""
    publish_only: tuple[str, ...] = ()
    """Bare JIDs that may publish to it, and not subscribe."""
    members: tuple[str, ...] = ()
    """Bare JIDs that may subscribe to it: a queue is closed to others, unless `options` open it."""
    outcasts: tuple[str, ...] = ()
    """Bare JIDs that may do nothing with it."""
    options: dict[str, str | int | float | bool] = {}
    """Further fields of its configuration form, by their names."""

    @property
    def friends(self) -> tuple[str, ...]:
        """The JIDs that are named, without the outcasts."""
        return (*self.owners, *self.publishers, *self.publish_only, *self.members)

    @property
    def people(self) -> tuple[str, ...]:
        """All JIDs that are named, in their order."""
        return (*self.friends, *self.outcasts)


class ScheduleSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An item to publish at set times ([how to](../how-to/schedules.md))."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
    """Its name, unique in the file; the ids of its items begin with it."""
    cron: str
    """Minute, hour, day of the month, month and day of the week, as in cron, or one of its words, such as `@daily`."""
    node: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ID_LENGTH)]
    """The node to publish to, a queue or a plain node."""
    payload: str | None = None
    """The payload as an XML element in a namespace. Set either this or `json`."""
    json: Any = None
    """The payload as a value, published as JSON (XEP-0335)."""
    zone: str = "UTC"
    """The IANA name of the time zone of the times: Europe/Berlin."""
    missed: Literal["once", "skip", "all"] = "once"
    """What to publish for missed times: `once`, one item for all of them; `skip`, none; `all`, one for each of the
    last hundred."""
    priority: int = 0
    """The items' priority in a queue; higher goes first."""
    ttl: Annotated[float, msgspec.Meta(ge=0, le=MAX_SPAN / 1000)] | None = None
    """Seconds after which an item expires; by default the node's `item_expire`."""
    headers: dict[str, str] = {}
    """Headers that workers receive with the payload (XEP-0131)."""
    group: str = ""
    """The group of its items, in a queue (`x-queueing#group_limit`)."""
    enabled: bool = True
    """Whether it publishes. Times are not missed while it is off."""


_Count = Annotated[int, msgspec.Meta(ge=1, le=2**53)]


class TransactionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much publishers may stage before they commit. Beyond it a publish is refused with `resource-constraint` of type `wait`."""

    items_per_account: _Count = DEFAULTS.items_per_account
    """Staged items of one account."""
    bytes_per_account: _Count = DEFAULTS.bytes_per_account
    """Bytes of payloads and headers staged by one account."""
    items: _Count = DEFAULTS.items
    """Staged items of all accounts."""
    bytes: _Count = DEFAULTS.bytes
    """Bytes of payloads and headers staged by all accounts."""
    staged_for: _Count = DEFAULTS.staged_for // 1000
    """Seconds after which uncommitted items are dropped; each publish restarts the time."""
    kept_for: _Count = DEFAULTS.kept_for // 1000
    """Seconds for which an app's version is remembered after its last commit, and each record after its own. A
    publisher may repeat itself for that long."""
    apps_per_account: _Count = DEFAULTS.apps_per_account
    """Apps of one account, each until it was not used for `kept_for`: an app has a name for a publisher that goes on, and not
    for each of its runs."""

    def limits(self) -> Limits:
        """Return these as the rules take them."""
        return Limits(
            *(self.items_per_account, self.bytes_per_account, self.items, self.bytes),
            staged_for=seconds(self.staged_for),
            kept_for=seconds(self.kept_for),
            apps_per_account=self.apps_per_account,
        )


_Bound = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class AccountLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one account, or of each account of a domain; the general limits apply to what is not named."""

    nodes: _Bound | None = None
    """Nodes that it has created."""
    items: _Bound | None = None
    """Items in all of these."""
    bytes: _Bound | None = None
    """Bytes of payloads and headers in all of these."""


class LimitSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What each account may store, in the nodes that it has created; 0 means no limit.

    Administrators and the service itself, which creates the declared nodes, have no limits.
    """

    nodes: _Bound = USUAL.nodes
    """Nodes that an account has created. One more is refused with `policy-violation` of type `wait`."""
    items: _Bound = USUAL.items
    """Items in all the nodes that an account has created. One more is refused with `resource-constraint` of type
    `wait`."""
    bytes: _Bound = USUAL.bytes
    """Bytes of payloads and headers in all the nodes that an account has created; refused in the same way."""
    accounts: dict[str, AccountLimits] = {}
    """Limits of single accounts: tables `[limits.accounts."importer@example.org"]`, or
    `[limits.accounts."example.org"]` for each account of a domain, with `nodes`, `items` and `bytes`; JSON in the
    variable."""

    def quotas(self) -> Quotas:
        """Return these as the rules take them."""
        usual = Quota(self.nodes, self.items, self.bytes)
        others = {JID(name).bare: _quota(usual, mine) for name, mine in self.accounts.items()}
        return Quotas(usual, others)


def _quota(usual: Quota, mine: AccountLimits) -> Quota:
    named = {key: value for key, value in msgspec.structs.asdict(mine).items() if value is not None}
    return msgspec.structs.replace(usual, **named)


USUAL_STORE: Final = "sqlite:///var/lib/pubqueue/pubqueue.db"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything an operator can set."""

    jid: str
    """The component's address, a domain: queue.example.org."""
    secret: str | None = None
    """The component's secret; prefer `secret_file`."""
    secret_file: str | None = None
    """A file with the component's secret, as configured in the server, in its first line. The default is the
    credential `secret` from systemd (`LoadCredential=`), or `/etc/pubqueue/secret` if that file exists."""
    server: str = "127.0.0.1:5347"
    """The server's component port, as host:port. If it is empty, the service is not attached to an XMPP server: then it
    needs no secret, and another protocol has to be configured."""
    store: str = USUAL_STORE
    """The store: `sqlite:///path/to/file` (`sqlite:path` is relative), readable by its owner only (mode 0600),
    `postgresql://role@host/database`, or `memory:`, for trials."""
    admins: tuple[str, ...] = ()
    """Bare JIDs that may do everything on every node."""
    node_creation: CreationPolicy = CreationPolicy.LOCAL
    """Who may create nodes: `anyone`, `local` (accounts of the domain above the component's), `admins`."""
    auto_creation: AutoCreation = AutoCreation.WITH_OPTIONS
    """When a publish creates the node that it names, for accounts that may create nodes: `always`, `with-options`
    (only if publish-options describe the node, so that a mistyped name creates none), `never`."""
    subscriptions_per_account: _Count = MAX_SUBSCRIPTIONS
    """Subscriptions to one node that the JIDs of one account may have together."""
    anonymous_domains: tuple[str, ...] = ()
    """Domains of anonymous accounts; these may not subscribe."""
    ping_after: Annotated[float, msgspec.Meta(ge=0, le=86_400)] = SILENCE
    """Seconds after which a worker that holds items and sends nothing is pinged (XEP-0199). If two pings have no answer, or
    its server answers that it is gone, the worker counts as gone. 0: never. All that are known to be here are pinged at the start and each
    hour in any case, but then only an answer that they are gone counts."""
    settle_by_get: bool = True
    """Whether an IQ of type `get` retracts and unlocks in queues, as XEP-0254 prints it; `set` always does."""
    log_level: str = "info"
    """The lowest level of log lines to write: `debug`, `info`, `warning`, `error`."""
    log_format: str = "logfmt"
    """The format of log lines: `logfmt` (key=value) or `json` (one object per line)."""
    http: str = ""
    """Where to serve the page, metrics, health and readiness over HTTP: host:port, or a port of the loopback interface; several
    with commas between them. `*` as host stands for all addresses of the machine. Empty: nowhere."""
    http_certificate: str = ""
    """A PEM file with the certificate for HTTPS, followed by the intermediate ones. With this and `http_key`, the addresses of `http`
    are served by TLS alone. Both files are read again on reload."""
    http_key: str = ""
    """A PEM file with the key of the certificate, without a passphrase."""
    http_proxies: tuple[str, ...] = ()
    """Addresses of proxies that use TLS with browsers, and networks of them, such as 10.0.0.0/24. Without TLS of our own,
    users log in to the page only over a loopback address or through one of these. `X-Forwarded-For` is believed only from them and,
    on the addresses of `http`, from this host; the client that it names counts for wrong attempts and limits. With
    neither proxies nor `http_certificate`, `http` must be loopback addresses if users can log in to the page."""
    local_key_file: str = ""
    """The file with the key by which commands with `--config` operate the service on its own host, without a password. The service makes it at the
    start, for its own user alone (mode 0600). Empty: the file of an SQLite store with `.key` appended; with PostgreSQL, there is no key."""
    event_log_days: Annotated[float, msgspec.Meta(gt=0, le=36_600)] = 7.0
    """Days after which events are deleted, for nodes that keep a log (`x-queueing#event_log`)."""
    event_log_size: Annotated[int, msgspec.Meta(ge=1, le=10**9)] = 1_000_000
    """Maximum number of events, of all nodes together; each needs some 200 bytes of disk."""
    transactions: TransactionSettings = TransactionSettings()
    """How much may be staged, and for how long; the table `[transactions]`."""
    limits: LimitSettings = LimitSettings()
    """What each account may store; the table `[limits]`."""
    qos: QosSettings = QosSettings()
    """Quality of Service for messages of XMPP; the table `[qos]`."""
    stomp: StompSettings = StompSettings()
    """Clients of STOMP; the table `[stomp]`."""
    grpc: GrpcSettings = GrpcSettings()
    """Clients of gRPC; the table `[grpc]`."""
    rest: RestSettings = RestSettings()
    """Clients of REST messaging; the table `[rest]`."""
    alerts: AlertSettings = AlertSettings()
    """Messages when something is wrong; the table `[alerts]`."""
    node: tuple[NodeSettings, ...] = ()
    """Nodes that are created at the start, or changed to match the declaration; tables `[[node]]` in the file, JSON
    in the variable."""
    user: tuple[UserSettings, ...] = ()
    """Users of the service itself, who log in to it and not to an XMPP server; tables `[[user]]` in the file, JSON in the
    variable."""
    schedule: tuple[ScheduleSettings, ...] = ()
    """Schedules that publish at set times; tables `[[schedule]]` in the file, JSON in the variable. A schedule that
    is removed from the file ends."""

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Return every setting to show; a secret or password is replaced by dots."""
        shown = {field: getattr(self, field) for field in self.__struct_fields__}
        hidden = {"secret": "..." if self.secret else None, "store": shown_address(self.store)}
        return list((shown | hidden).items())

    def __repr__(self) -> str:
        """Show the settings without the secret, because they may appear in a traceback."""
        shown = ", ".join(f"{field}={value!r}" for field, value in self.__rich_repr__())
        return f"{type(self).__name__}({shown})"

    @property
    def auto_creates(self) -> bool:
        """Whether a publish can create a node."""
        return self.auto_creation is not AutoCreation.NEVER

    def account_of(self, name: str) -> Jid:
        """Return the account of a user."""
        return Jid(f"{name}@{self.jid}")

    def administrators(self) -> tuple[Jid, ...]:
        """Return the accounts that may do everything: those of `admins`, and the users with this role."""
        users = (self.account_of(one.name) for one in self.user if Role.ADMIN in one.roles)
        return (*map(Jid, self.admins), *users)

    def address(self) -> tuple[str, int]:
        """Return the server's host and port.

        Raises:
            ConfigError: `server` is not host:port.

        """
        host, _, port = self.server.rpartition(":")
        if not host or not is_port(port) or not int(port):
            raise ConfigError(
                f"server must be host:port, not {self.server!r}", key="server", value=self.server
            )
        return host.strip("[]"), int(port)

    def proxies(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """Return the networks of proxies that are named.

        Raises:
            ConfigError: one of `http_proxies` is not an address or a network.

        """
        return networks("http_proxies", self.http_proxies)

    def shared_secret(self) -> str:
        """Return the secret, from the setting or from its file.

        Raises:
            ConfigError: the secret is not set, or the file cannot be read.

        """
        if self.secret:
            return self.secret
        if not self.secret_file:
            raise ConfigError(
                "the secret is not set: use secret_file or PUBQUEUE_SECRET", key="secret_file"
            )
        secret = first_line("secret_file", self.secret_file)
        if not secret:
            raise ConfigError(
                f"secret_file {self.secret_file} has no secret in its first line",
                key="secret_file",
                source=self.secret_file,
            )
        return secret

    def key_file(self) -> Path | None:
        """Return the file with the key of this host; None if there is none."""
        if self.local_key_file:
            return Path(self.local_key_file)
        store = file_of(self.store)
        return None if store is None else store.with_name(f"{store.name}.key")

    def make_store(self) -> Store:
        """Return the store that is configured, not opened yet.

        Raises:
            ConfigError: `store` is not the address of a store.

        """
        try:
            return store_at(self.store)
        except ValueError as problem:
            raise ConfigError(str(problem), key="store", value=shown_address(self.store)) from None


def first_line(key: str, file: str) -> str:
    """Return the first line of the file that a key names.

    Raises:
        ConfigError: it cannot be read.

    """
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except OSError as problem:
        raise ConfigError(
            f"{key} {file} cannot be read: {why(Path(file), problem)}", key=key, source=file
        ) from None
    except UnicodeDecodeError as problem:
        raise ConfigError(f"{key} {file} cannot be read: {problem}", key=key, source=file) from None
    return lines[0].strip() if lines else ""


# A user, as the configuration has it.


class UserSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A user of the service itself, for the page and for protocols whose clients log in here ([how to](../operations/users.md))."""

    name: Annotated[str, msgspec.Meta(pattern=r"\A[a-z0-9._-]{1,64}\Z")]
    """The name to log in with: 1 to 64 of the characters a-z, 0-9, `.`, `_` and `-`. The account is `name@` and the service's
    own `jid`; lists of nodes and `[limits.accounts]` name it so."""
    password: str | None = None
    """A scrypt string, as `pubqueue user password` prints it."""
    password_file: str | None = None
    """A file with the scrypt string in its first line, instead of `password`."""
    token_sha256: tuple[str, ...] = ()
    """SHA-256 digests of bearer tokens; `pubqueue user token` makes a token and prints its digest."""
    certificate: str | None = None
    """The subject of a client certificate, such as `CN=etl,O=example`: all of its parts, in any order."""
    roles: tuple[Role, ...] = ()
    """`viewer` may see every queue on the page; `operator` may also change them there, and see payloads; `admin` may do
    everything on every node, as the accounts in `admins`. Without a role, the user may do what the lists of nodes say."""
    local: bool = False
    """Whether the account counts as local for `node_creation`."""
    faces: tuple[str, ...] | None = None
    """Where the user may log in: `page`, `stomp`, `grpc`. Everywhere, if it is not set; nowhere, if it is empty."""
    projects: tuple[str, ...] | None = None
    """Over gRPC: the projects that exist for the user. All, if it is not set."""

    def __rich_repr__(self) -> list[tuple[str, str]]:
        """Return what to show: the name."""
        return [("name", self.name)]

    def __repr__(self) -> str:
        """Show only the name, because the rest is hashes, which tracebacks should not contain."""
        return f"{type(self).__name__}(name={self.name!r})"
