-- Whether an operator has a worker get no further items, until it is resumed or its subscription ends. `available` is false as long.
ALTER TABLE subscription ADD COLUMN quiet boolean NOT NULL DEFAULT false;
