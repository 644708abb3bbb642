-- Notices for connections of other instances. Earlier programs neither write nor read it.
CREATE TABLE forwarded (
    mark    text  COLLATE "C" PRIMARY KEY,
    notices bytea NOT NULL
);
