-- Keys of publishes that were used, for who repeats the request. `mark` stands for account, node and key; `ids` and `known` are JSON.
-- `key_total` has what the keys of each account count. Earlier programs neither write nor read either.
CREATE TABLE used_key (
    mark    text   PRIMARY KEY,
    account text   NOT NULL,
    content bytea  NOT NULL,
    until   bigint NOT NULL,
    size    bigint NOT NULL,
    ids     text   NOT NULL,
    known   text   NOT NULL
);

CREATE INDEX used_key_until ON used_key (until);

CREATE TABLE key_total (
    account text   PRIMARY KEY,
    bytes   bigint NOT NULL CHECK (bytes >= 0)
);
