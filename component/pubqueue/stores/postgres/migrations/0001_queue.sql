-- The queue, in a schema of its own. Counts (node.items, subscription.in_flight) are written once for each batch. Words
-- are compared by their bytes, whatever the language of the database: COLLATE "C".

-- Whose schema it is, and how far it is migrated.
CREATE TABLE pubqueue (
    program text    NOT NULL CHECK (program = 'pubqueue'),
    schema  integer NOT NULL
);
CREATE UNIQUE INDEX pubqueue_only ON pubqueue ((true));
INSERT INTO pubqueue VALUES ('pubqueue', 0);

-- One row: how many batches have been written by all processes together, and how many times a node was purged or
-- deleted: until then every process may remember the ids of nodes.
CREATE TABLE writing (
    batches bigint NOT NULL,
    nodes   bigint NOT NULL
);
CREATE UNIQUE INDEX writing_only ON writing ((true));
INSERT INTO writing VALUES (0, 0);

-- Of each process its last batch: whoever lost the connection in a commit finds out here what became of it.
CREATE TABLE writer (
    id    text        COLLATE "C" PRIMARY KEY,
    batch bigint      NOT NULL,
    seen  timestamptz NOT NULL DEFAULT now()
);

-- The numbers of the processes that serve from here; each holds an advisory lock as long as it lives.
CREATE TABLE instance (
    number integer PRIMARY KEY CHECK (number >= 0)
);

-- The next number of each sequence; numbers only rise, also when the newest row has gone.
CREATE TABLE sequence (
    name text   COLLATE "C" PRIMARY KEY,
    next bigint NOT NULL CHECK (next >= 1)
);
INSERT INTO sequence VALUES ('item', 1), ('token', 1), ('told', 1);

CREATE TABLE node (
    id            bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- never again another node's: events may outlive it
    name          text    COLLATE "C" NOT NULL UNIQUE,
    config        text    NOT NULL,
    creator       text    COLLATE "C" NOT NULL,
    created       bigint  NOT NULL,
    items         bigint  NOT NULL DEFAULT 0 CHECK (items >= 0),
    subscriptions bigint  NOT NULL DEFAULT 0 CHECK (subscriptions >= 0),
    access_model  text    COLLATE "C" GENERATED ALWAYS AS (config::json ->> 'access_model') STORED,
    queueing      boolean GENERATED ALWAYS AS ((config::json ->> 'queueing')::boolean) STORED
);

CREATE INDEX node_access ON node (access_model, name);

-- What items belong to: the contents that a node has at present, or had. Contents without a node are nobody's: their
-- items are not to be seen, and are removed in slices. The first contents of a node have its number; later ones have
-- higher numbers than nodes.
CREATE TABLE contents (
    id      bigint PRIMARY KEY,
    node_id bigint UNIQUE REFERENCES node ON DELETE SET NULL
);

CREATE INDEX contents_gone ON contents (id) WHERE node_id IS NULL;

-- Deleted nodes to which somebody still belongs. While telling, their subscribers are to be told.
CREATE TABLE former_node (
    id      bigint  PRIMARY KEY,
    name    text    COLLATE "C" NOT NULL,
    telling boolean NOT NULL
);

CREATE INDEX former_node_telling ON former_node (telling, name);

-- Nodes that were closed to some: their subscribers are to be looked through, for those may have to go.
CREATE TABLE review (
    node_id bigint PRIMARY KEY REFERENCES node ON DELETE CASCADE
);

CREATE TABLE affiliation (
    node_id     bigint NOT NULL, -- of a node, or of a former one
    jid         text   COLLATE "C" NOT NULL CHECK (strpos(jid, '/') = 0),
    affiliation text   COLLATE "C" NOT NULL
        CHECK (affiliation IN ('owner', 'publisher', 'publish-only', 'member', 'outcast')),
    PRIMARY KEY (node_id, jid)
);

CREATE INDEX affiliation_account ON affiliation (jid);

CREATE TABLE subscription (
    id             bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node_id        bigint  NOT NULL, -- of a node, or of a former one
    jid            text    COLLATE "C" NOT NULL,
    account        text    COLLATE "C" NOT NULL CHECK (strpos(account, '/') = 0),
    subid          text    COLLATE "C" NOT NULL UNIQUE,
    queue_requests bigint  NOT NULL CHECK (queue_requests >= 1),
    in_flight      bigint  NOT NULL DEFAULT 0 CHECK (in_flight >= 0),
    last_served    bigint  NOT NULL DEFAULT 0,
    available      boolean NOT NULL DEFAULT true,
    unanswered     bigint  NOT NULL DEFAULT 0,
    UNIQUE (node_id, jid)
);

CREATE INDEX subscription_account ON subscription (account, node_id);
CREATE INDEX subscription_jid ON subscription (jid);
-- Subscribers that can take something: where nobody can, nothing of a queue has to be looked at.
CREATE INDEX subscription_free ON subscription (node_id) WHERE available AND in_flight < queue_requests;

-- Full JIDs that are here, in the order of their coming. Servers do not tell a component twice.
CREATE TABLE resource (
    id      bigint PRIMARY KEY,
    jid     text   COLLATE "C" NOT NULL UNIQUE,
    account text   COLLATE "C" NOT NULL CHECK (strpos(account, '/') = 0)
);

CREATE INDEX resource_account ON resource (account);

-- node_id is the number of contents.
CREATE TABLE item (
    seq         bigint  PRIMARY KEY,
    node_id     bigint  NOT NULL REFERENCES contents,
    id          text    COLLATE "C" NOT NULL,
    state       text    COLLATE "C" NOT NULL CHECK (state IN ('queued', 'locked', 'delayed', 'dead')),
    publisher   text    COLLATE "C" NOT NULL,
    published   bigint  NOT NULL,
    priority    bigint  NOT NULL DEFAULT 0,
    due         bigint,
    expires     bigint,
    acquired    bigint  NOT NULL DEFAULT 0 CHECK (acquired >= 0),
    failed      bigint  NOT NULL DEFAULT 0 CHECK (failed >= 0),
    released    bigint  NOT NULL DEFAULT 0 CHECK (released >= 0),
    holder      text    COLLATE "C",
    deadline    bigint,
    token       bigint  NOT NULL DEFAULT 0,
    avoid       text    COLLATE "C",
    aside       boolean NOT NULL DEFAULT false,
    dead_at     bigint,
    dead_reason text,
    dead_from   text    COLLATE "C",
    last_holder text    COLLATE "C",
    death       bigint,
    taken       bigint,
    txn_app     text    COLLATE "C",
    txn_version bigint,
    headers     text,
    payload     bytea   NOT NULL,
    UNIQUE (node_id, id),
    CHECK ((holder IS NULL) = (deadline IS NULL)),
    CHECK (holder IS NULL OR taken IS NOT NULL),
    CHECK ((death IS NULL) = (dead_at IS NULL)),
    CHECK ((holder IS NOT NULL) = (state = 'locked')),
    CHECK (state != 'delayed' OR due IS NOT NULL),
    CHECK (NOT aside OR state = 'delayed'),
    CHECK (state != 'dead' OR dead_at IS NOT NULL)
);

-- Whether an item lives is seen in the index: those whose time is over are passed over without a look at their rows.
CREATE INDEX item_ready ON item (node_id, priority DESC, seq, expires) WHERE state = 'queued';
CREATE INDEX item_aside ON item (node_id, priority DESC, seq, expires) WHERE aside;
CREATE INDEX item_node ON item (node_id, seq);
CREATE INDEX item_dead ON item (node_id, seq) WHERE dead_at IS NOT NULL;
CREATE INDEX item_death ON item (node_id, death, state) WHERE death IS NOT NULL;
CREATE INDEX item_held ON item (holder) WHERE state = 'locked';
CREATE INDEX item_deadline ON item (deadline, seq) WHERE state = 'locked';
CREATE INDEX item_due ON item (due) WHERE state = 'delayed';
CREATE INDEX item_expires ON item (expires) WHERE expires IS NOT NULL AND state IN ('queued', 'delayed');

-- Who held an item and lost it. A row lives as long as its item.
CREATE TABLE receipt (
    seq bigint NOT NULL REFERENCES item ON DELETE CASCADE,
    jid text   COLLATE "C" NOT NULL,
    PRIMARY KEY (seq, jid)
);

-- Ids of finished work that still absorb a re-publish of the same payload. Node ids are no references: numbers of nodes
-- are never used again, and rows go with their time.
CREATE TABLE finished (
    node_id bigint NOT NULL,
    id      text   COLLATE "C" NOT NULL,
    digest  bytea  NOT NULL,
    until   bigint NOT NULL,
    PRIMARY KEY (node_id, id)
);

CREATE INDEX finished_until ON finished (until);

-- Who writes transactions under a name, and how far they are committed.
CREATE TABLE txn_app (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name      text   COLLATE "C" NOT NULL UNIQUE,
    owner     text   COLLATE "C" NOT NULL CHECK (strpos(owner, '/') = 0),
    version   bigint,
    committed bigint,
    used      bigint NOT NULL,
    CHECK ((version IS NULL) = (committed IS NULL))
);

CREATE INDEX txn_app_used ON txn_app (used);

-- A version of an app: open while it is not committed, then the record of it. items and bytes are what is staged while
-- it is open, then what was committed. Ids are never used again: staged rows may outlive it.
CREATE TABLE txn (
    id               bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    app_id           bigint  NOT NULL REFERENCES txn_app ON DELETE CASCADE,
    owner            text    COLLATE "C" NOT NULL,
    version          bigint  NOT NULL,
    immediate        boolean NOT NULL,
    began            bigint  NOT NULL,
    until            bigint  NOT NULL,
    items            bigint  NOT NULL DEFAULT 0 CHECK (items >= 0),
    bytes            bigint  NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    committed        bigint,
    skipped          bigint,
    dead_lettered    bigint,
    seconds          double precision,
    on_taken         text    COLLATE "C" NOT NULL DEFAULT 'fail' CHECK (on_taken IN ('fail', 'skip', 'dead-letter')),
    dead_letter_node text    COLLATE "C",
    UNIQUE (app_id, version)
);

CREATE INDEX txn_open ON txn (until) WHERE committed IS NULL;
CREATE INDEX txn_of_app ON txn (app_id, id) WHERE committed IS NOT NULL;
CREATE INDEX txn_of_owner ON txn (owner, id) WHERE committed IS NOT NULL;
CREATE INDEX txn_committed ON txn (committed) WHERE committed IS NOT NULL;

-- A try at a part of a version. Without a version nobody wants it: its rows go in slices. What is staged by the winners
-- of a large commit belongs to the record of the version, and is moved in slices.
CREATE TABLE attempt (
    id        bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    txn_id    bigint,
    part      bigint  NOT NULL,
    number    bigint  NOT NULL,
    items     bigint  NOT NULL DEFAULT 0 CHECK (items >= 0),
    bytes     bigint  NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    known     bigint  NOT NULL DEFAULT 0 CHECK (known >= 0), -- of a version visible at once: what nodes knew before
    committed boolean NOT NULL DEFAULT false,
    UNIQUE (txn_id, part, number)
);

CREATE INDEX attempt_committed ON attempt (txn_id) WHERE committed;

-- Items that wait for a commit, by attempt in the order of their arrival. The index has them by version, node and id: so
-- a commit meets the node's items in their order. Spans (pause, life) count from the commit.
CREATE TABLE staged (
    attempt_id bigint  NOT NULL REFERENCES attempt,
    place      bigint  NOT NULL,
    txn_id     bigint  NOT NULL,
    node       text    COLLATE "C" NOT NULL,
    id         text    COLLATE "C" NOT NULL,
    state      text    COLLATE "C" NOT NULL CHECK (state IN ('queued', 'delayed')),
    priority   bigint  NOT NULL,
    pause      bigint,
    life       bigint,
    known      boolean NOT NULL,
    size       bigint  NOT NULL,
    headers    text,
    payload    bytea   NOT NULL,
    PRIMARY KEY (attempt_id, place),
    CHECK ((pause IS NOT NULL) = (state = 'delayed'))
);

CREATE UNIQUE INDEX staged_id ON staged (txn_id, node, id, attempt_id);

-- What waits for commits, of each account and (under the empty name) in all.
CREATE TABLE staged_usage (
    account text   COLLATE "C" PRIMARY KEY,
    items   bigint NOT NULL CHECK (items >= 0),
    bytes   bigint NOT NULL CHECK (bytes >= 0)
);

-- What has happened to items of nodes that keep a log. The next number is the newest plus one, so the newest row is
-- never deleted. Node ids are no references: a deleted node's events cannot be read any more, and go with their age.
CREATE TABLE event (
    seq       bigint PRIMARY KEY,
    at        bigint NOT NULL,
    kind      text   COLLATE "C" NOT NULL,
    node_id   bigint NOT NULL,
    item      text   COLLATE "C",
    attempt   bigint,
    worker    text   COLLATE "C",
    publisher text   COLLATE "C",
    age       bigint,
    held      bigint,
    origin    text   COLLATE "C",
    went_to   text   COLLATE "C",
    detail    text   NOT NULL
);

-- What a commit works with: the attempt that stands for each part, and winners that are not new; state NULL is one that
-- a later winner supersedes. Not temporary tables, for which a role needs a right on the whole database; unlogged, for
-- they mean nothing outside one transaction.
CREATE UNLOGGED TABLE winner (
    part       bigint PRIMARY KEY,
    attempt_id bigint NOT NULL UNIQUE
);

CREATE UNLOGGED TABLE met (
    attempt_id bigint NOT NULL,
    place      bigint NOT NULL,
    node       text   COLLATE "C" NOT NULL,
    id         text   COLLATE "C" NOT NULL,
    item_seq   bigint,
    state      text   COLLATE "C",
    same       boolean,
    PRIMARY KEY (attempt_id, place)
);
