-- Keys of publishes that were used, for who repeats the request. `mark` stands for account, node and key; `ids` and `known` are JSON.
-- `key_total` has what the keys of each account count. Earlier programs neither write nor read either.
CREATE TABLE used_key (
    mark    TEXT    NOT NULL PRIMARY KEY,
    account TEXT    NOT NULL,
    content BLOB    NOT NULL,
    until   INTEGER NOT NULL,
    size    INTEGER NOT NULL,
    ids     TEXT    NOT NULL,
    known   TEXT    NOT NULL
) STRICT;

CREATE INDEX used_key_until ON used_key (until);

CREATE TABLE key_total (
    account TEXT    PRIMARY KEY,
    bytes   INTEGER NOT NULL CHECK (bytes >= 0)
) STRICT, WITHOUT ROWID;
