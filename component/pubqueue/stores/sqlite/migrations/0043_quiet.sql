-- Whether an operator has a worker get no further items, until it is resumed or its subscription ends. `available` is 0 as long.
ALTER TABLE subscription ADD COLUMN quiet INTEGER NOT NULL DEFAULT 0 CHECK (quiet IN (0, 1));
