-- Payloads of more than 16 KiB, of items that are queued or done, by the items' numbers. The rows of these items have an empty payload, so
-- that a change of their state does not write the payload again (decision 149). Rows of earlier versions keep their payloads. Programs of
-- thirty-five migrations cannot run on this schema.
CREATE TABLE large_payload (
    seq     INTEGER PRIMARY KEY,
    payload BLOB    NOT NULL
) STRICT;

-- A payload goes with the row that it belongs to; an item that is done, or comes back, has a second row before the first one goes.
CREATE TRIGGER item_removed AFTER DELETE ON item WHEN length(OLD.payload) = 0 BEGIN
    DELETE FROM large_payload WHERE seq = OLD.seq AND NOT EXISTS (SELECT 1 FROM done_item WHERE seq = OLD.seq AND length(payload) = 0);
END;

CREATE TRIGGER done_item_removed AFTER DELETE ON done_item WHEN length(OLD.payload) = 0 BEGIN
    DELETE FROM large_payload WHERE seq = OLD.seq AND NOT EXISTS (SELECT 1 FROM item WHERE seq = OLD.seq AND length(payload) = 0);
END;

CREATE TRIGGER payload_replaced AFTER UPDATE OF payload ON item WHEN length(OLD.payload) = 0 BEGIN
    DELETE FROM large_payload WHERE seq = OLD.seq;
END;
