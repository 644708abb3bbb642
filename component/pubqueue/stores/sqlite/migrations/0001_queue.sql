-- The queue. Old programs cannot run on this schema: there are none.
-- node.items and subscription.in_flight are counts of items, written once for each batch (counts.py):
-- a trigger for each row would cost as much as the row itself.

CREATE TABLE node (
    id            INTEGER PRIMARY KEY AUTOINCREMENT, -- never again another node's: events may outlive it
    name          TEXT    NOT NULL UNIQUE,
    config        TEXT    NOT NULL,
    creator       TEXT    NOT NULL,
    created       INTEGER NOT NULL,
    items         INTEGER NOT NULL DEFAULT 0 CHECK (items >= 0),
    subscriptions INTEGER NOT NULL DEFAULT 0 CHECK (subscriptions >= 0)
) STRICT;

CREATE TABLE affiliation (
    node_id     INTEGER NOT NULL REFERENCES node ON DELETE CASCADE,
    jid         TEXT    NOT NULL CHECK (instr(jid, '/') = 0),
    affiliation TEXT    NOT NULL CHECK (affiliation IN ('owner', 'publisher', 'publish-only', 'member', 'outcast')),
    PRIMARY KEY (node_id, jid)
) STRICT, WITHOUT ROWID;

CREATE TABLE subscription (
    id             INTEGER PRIMARY KEY,
    node_id        INTEGER NOT NULL REFERENCES node ON DELETE CASCADE,
    jid            TEXT    NOT NULL,
    account        TEXT    NOT NULL CHECK (instr(account, '/') = 0),
    subid          TEXT    NOT NULL UNIQUE,
    queue_requests INTEGER NOT NULL CHECK (queue_requests >= 1),
    in_flight      INTEGER NOT NULL DEFAULT 0 CHECK (in_flight >= 0),
    last_served    INTEGER NOT NULL DEFAULT 0,
    available      INTEGER NOT NULL DEFAULT 1 CHECK (available IN (0, 1)),
    bounces        INTEGER NOT NULL DEFAULT 0,
    UNIQUE (node_id, jid)
) STRICT;

CREATE INDEX subscription_account ON subscription (node_id, account);
CREATE INDEX subscription_jid ON subscription (jid);

-- Full JIDs that are here, in the order of their coming. Servers do not tell a component twice.
CREATE TABLE resource (
    id      INTEGER PRIMARY KEY,
    jid     TEXT    NOT NULL UNIQUE,
    account TEXT    NOT NULL CHECK (instr(account, '/') = 0)
) STRICT;

CREATE INDEX resource_account ON resource (account);

CREATE TABLE item (
    seq         INTEGER PRIMARY KEY,
    node_id     INTEGER NOT NULL REFERENCES node ON DELETE CASCADE,
    id          TEXT    NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('queued', 'locked', 'delayed', 'dead')),
    publisher   TEXT    NOT NULL,
    published   INTEGER NOT NULL,
    priority    INTEGER NOT NULL DEFAULT 0,
    due         INTEGER,
    expires     INTEGER,
    acquired    INTEGER NOT NULL DEFAULT 0 CHECK (acquired >= 0),
    failed      INTEGER NOT NULL DEFAULT 0 CHECK (failed >= 0),
    released    INTEGER NOT NULL DEFAULT 0 CHECK (released >= 0),
    holder      TEXT,
    deadline    INTEGER,
    token       INTEGER NOT NULL DEFAULT 0,
    avoid       TEXT,
    aside       INTEGER NOT NULL DEFAULT 0 CHECK (aside IN (0, 1)),
    dead_at     INTEGER,
    dead_reason TEXT,
    dead_from   TEXT,
    last_holder TEXT,
    death       INTEGER,
    taken       INTEGER,
    txn_app     TEXT,
    txn_version INTEGER,
    headers     TEXT,
    payload     BLOB    NOT NULL,
    UNIQUE (node_id, id),
    CHECK ((holder IS NULL) = (deadline IS NULL)),
    CHECK (holder IS NULL OR taken IS NOT NULL),
    CHECK ((death IS NULL) = (dead_at IS NULL)),
    CHECK ((holder IS NOT NULL) = (state = 'locked')),
    CHECK (state != 'delayed' OR due IS NOT NULL),
    CHECK (NOT aside OR state = 'delayed'),
    CHECK (state != 'dead' OR dead_at IS NOT NULL)
) STRICT;

CREATE INDEX item_ready ON item (node_id, priority DESC, seq) WHERE state = 'queued';
CREATE INDEX item_aside ON item (node_id, priority DESC, seq) WHERE aside;
CREATE INDEX item_dead ON item (node_id, seq) WHERE dead_at IS NOT NULL;
CREATE INDEX item_death ON item (node_id, death) WHERE death IS NOT NULL;
CREATE INDEX item_held ON item (holder) WHERE state = 'locked';
CREATE INDEX item_deadline ON item (deadline) WHERE state = 'locked';
CREATE INDEX item_due ON item (due) WHERE state = 'delayed';
CREATE INDEX item_expires ON item (expires) WHERE expires IS NOT NULL AND state IN ('queued', 'delayed');

-- Who held an item and lost it. A row lives as long as its item.
CREATE TABLE receipt (
    seq INTEGER NOT NULL REFERENCES item ON DELETE CASCADE,
    jid TEXT    NOT NULL,
    PRIMARY KEY (seq, jid)
) STRICT, WITHOUT ROWID;

-- Ids of finished work that still absorb a re-publish of the same payload.
CREATE TABLE finished (
    node_id INTEGER NOT NULL REFERENCES node ON DELETE CASCADE,
    id      TEXT    NOT NULL,
    digest  BLOB    NOT NULL,
    until   INTEGER NOT NULL,
    PRIMARY KEY (node_id, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX finished_until ON finished (until);

-- Who writes transactions under a name, and how far they are committed.
CREATE TABLE txn_app (
    id        INTEGER PRIMARY KEY,
    name      TEXT    NOT NULL UNIQUE,
    owner     TEXT    NOT NULL CHECK (instr(owner, '/') = 0),
    version   INTEGER,
    committed INTEGER,
    used      INTEGER NOT NULL,
    CHECK ((version IS NULL) = (committed IS NULL))
) STRICT;

CREATE INDEX txn_app_used ON txn_app (used);

-- A version of an app: open while it is not committed, then the record of it. items and bytes are what is
-- staged while it is open, then what was committed. Ids are never used again: staged rows may outlive it.
CREATE TABLE txn (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    app_id        INTEGER NOT NULL REFERENCES txn_app ON DELETE CASCADE,
    owner         TEXT    NOT NULL,
    version       INTEGER NOT NULL,
    immediate     INTEGER NOT NULL CHECK (immediate IN (0, 1)),
    began         INTEGER NOT NULL,
    until         INTEGER NOT NULL,
    items         INTEGER NOT NULL DEFAULT 0 CHECK (items >= 0),
    bytes         INTEGER NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    committed     INTEGER,
    skipped       INTEGER,
    dead_lettered INTEGER,
    seconds       REAL,
    UNIQUE (app_id, version)
) STRICT;

CREATE INDEX txn_open ON txn (until) WHERE committed IS NULL;
CREATE INDEX txn_of_app ON txn (app_id) WHERE committed IS NOT NULL;
CREATE INDEX txn_of_owner ON txn (owner) WHERE committed IS NOT NULL;
CREATE INDEX txn_committed ON txn (committed) WHERE committed IS NOT NULL;

-- A try at a part of a version. Without a version nobody wants it: its rows go in slices.
CREATE TABLE attempt (
    id     INTEGER PRIMARY KEY,
    txn_id INTEGER,
    part   INTEGER NOT NULL,
    number INTEGER NOT NULL,
    items  INTEGER NOT NULL DEFAULT 0 CHECK (items >= 0),
    bytes  INTEGER NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    UNIQUE (txn_id, part, number)
) STRICT;

-- Items that wait for a commit, by attempt in the order of their arrival. The index has them by version, node
-- and id: so a commit meets the node's items in their order. Spans (pause, life) count from the commit.
CREATE TABLE staged (
    attempt_id INTEGER NOT NULL REFERENCES attempt,
    row        INTEGER NOT NULL,
    txn_id     INTEGER NOT NULL,
    node       TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    state      TEXT    NOT NULL CHECK (state IN ('queued', 'delayed')),
    priority   INTEGER NOT NULL,
    pause      INTEGER,
    life       INTEGER,
    known      INTEGER NOT NULL CHECK (known IN (0, 1)),
    size       INTEGER NOT NULL,
    headers    TEXT,
    payload    BLOB    NOT NULL,
    PRIMARY KEY (attempt_id, row),
    CHECK ((pause IS NOT NULL) = (state = 'delayed'))
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX staged_id ON staged (txn_id, node, id, attempt_id);

-- What waits for commits, of each account and (under the empty name) in all.
CREATE TABLE staged_usage (
    account TEXT    PRIMARY KEY,
    items   INTEGER NOT NULL CHECK (items >= 0),
    bytes   INTEGER NOT NULL CHECK (bytes >= 0)
) STRICT, WITHOUT ROWID;

-- What has happened to items of nodes that keep a log. The next number is the newest plus one, so the newest
-- row is never deleted. Node ids are no references: a deleted node's events cannot be read any more, and go
-- with their age, in slices.
CREATE TABLE event (
    seq       INTEGER PRIMARY KEY,
    at        INTEGER NOT NULL,
    kind      TEXT    NOT NULL,
    node_id   INTEGER NOT NULL,
    item      TEXT,
    attempt   INTEGER,
    worker    TEXT,
    publisher TEXT,
    age       INTEGER,
    held      INTEGER,
    origin    TEXT,
    went_to   TEXT,
    detail    TEXT    NOT NULL
) STRICT;

-- One row: the next lock token of the service.
CREATE TABLE token (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    next INTEGER NOT NULL
) STRICT;
INSERT INTO token VALUES (1, 1);

CREATE TRIGGER subscription_added AFTER INSERT ON subscription BEGIN
    UPDATE node SET subscriptions = subscriptions + 1 WHERE id = NEW.node_id;
END;

CREATE TRIGGER subscription_ended AFTER DELETE ON subscription BEGIN
    UPDATE node SET subscriptions = subscriptions - 1 WHERE id = OLD.node_id;
END;
