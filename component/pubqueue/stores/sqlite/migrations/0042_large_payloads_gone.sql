-- Numbers of items that are gone, and whose large payloads are still here (decision 178). To free megabytes takes as long as hundreds of
-- requests, so a sweep deletes them by slices of bytes. Programs of forty-one migrations cannot run on this schema: they would count them as left over.
CREATE TABLE large_payload_gone (seq INTEGER PRIMARY KEY) STRICT;

DROP TRIGGER item_removed;
DROP TRIGGER done_item_removed;

-- An item that is done, or comes back, has a second row before the first one goes.
CREATE TRIGGER item_removed AFTER DELETE ON item WHEN length(OLD.payload) = 0 BEGIN
    INSERT OR IGNORE INTO large_payload_gone SELECT seq FROM large_payload
    WHERE seq = OLD.seq AND NOT EXISTS (SELECT 1 FROM done_item WHERE seq = OLD.seq AND length(payload) = 0);
END;

CREATE TRIGGER done_item_removed AFTER DELETE ON done_item WHEN length(OLD.payload) = 0 BEGIN
    INSERT OR IGNORE INTO large_payload_gone SELECT seq FROM large_payload
    WHERE seq = OLD.seq AND NOT EXISTS (SELECT 1 FROM item WHERE seq = OLD.seq AND length(payload) = 0);
END;
