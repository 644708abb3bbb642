-- What is done in queues that keep it, outside of the table, and all indexes, of what is in the queues. Earlier programs neither write
-- nor read it.
CREATE TABLE done_item (
    seq         INTEGER PRIMARY KEY,
    node_id     INTEGER NOT NULL REFERENCES contents,
    id          TEXT    NOT NULL,
    publisher   TEXT    NOT NULL,
    published   INTEGER NOT NULL,
    priority    INTEGER NOT NULL,
    token       INTEGER NOT NULL,
    done_at     INTEGER NOT NULL,
    expires     INTEGER,
    headers     TEXT,
    txn_app     TEXT,
    txn_version INTEGER,
    group_name  TEXT,
    size        INTEGER NOT NULL CHECK (size >= 0),
    payload     BLOB    NOT NULL
) STRICT;

CREATE INDEX done_item_published ON done_item (node_id, published, seq);

-- How much of it each queue has, in numbers and in bytes.
ALTER TABLE node ADD COLUMN done INTEGER NOT NULL DEFAULT 0 CHECK (done >= 0);
ALTER TABLE node ADD COLUMN done_bytes INTEGER NOT NULL DEFAULT 0 CHECK (done_bytes >= 0);
CREATE INDEX node_done ON node (name) WHERE done > 0;

-- Queues that are led back, or on, to a moment, slice by slice.
CREATE TABLE seek (
    node_id INTEGER PRIMARY KEY REFERENCES node ON DELETE CASCADE,
    since   INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    through INTEGER NOT NULL
) STRICT;
