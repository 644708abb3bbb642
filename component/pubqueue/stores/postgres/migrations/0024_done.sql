-- What is done in queues that keep it, outside of the table, and all indexes, of what is in the queues. Earlier programs neither write
-- nor read it.
CREATE TABLE done_item (
    seq         bigint PRIMARY KEY,
    node_id     bigint NOT NULL REFERENCES contents,
    id          text   COLLATE "C" NOT NULL,
    publisher   text   COLLATE "C" NOT NULL,
    published   bigint NOT NULL,
    priority    bigint NOT NULL,
    token       bigint NOT NULL,
    done_at     bigint NOT NULL,
    expires     bigint,
    headers     text,
    txn_app     text   COLLATE "C",
    txn_version bigint,
    group_name  text   COLLATE "C",
    size        bigint NOT NULL CHECK (size >= 0),
    payload     bytea  NOT NULL
);

-- An expression, so that nobody who looks for an item by its number alone takes this index.
CREATE INDEX done_item_published ON done_item (node_id, published, (seq + 0));

-- How much of it each queue has, in numbers and in bytes.
ALTER TABLE node ADD COLUMN done bigint NOT NULL DEFAULT 0 CHECK (done >= 0);
ALTER TABLE node ADD COLUMN done_bytes bigint NOT NULL DEFAULT 0 CHECK (done_bytes >= 0);
CREATE INDEX node_done ON node (name) WHERE done > 0;

-- Queues that are led back, or on, to a moment, slice by slice.
CREATE TABLE seek (
    node_id bigint PRIMARY KEY REFERENCES node ON DELETE CASCADE,
    since   bigint NOT NULL,
    at      bigint NOT NULL,
    through bigint NOT NULL
);
