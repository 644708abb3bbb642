-- Publishes that feed more queues than one commit may. Earlier programs neither write nor read them.
CREATE TABLE feeding (
    mark  text   COLLATE "C" PRIMARY KEY,
    place bigint NOT NULL,
    what  bytea  NOT NULL
);

CREATE TABLE fed_message (
    name  text  COLLATE "C" PRIMARY KEY,
    draft bytea NOT NULL
);
