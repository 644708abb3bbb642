-- Notices for connections of other instances. Earlier programs neither write nor read it.
CREATE TABLE forwarded (
    mark    TEXT PRIMARY KEY,
    notices BLOB NOT NULL
) STRICT, WITHOUT ROWID;
