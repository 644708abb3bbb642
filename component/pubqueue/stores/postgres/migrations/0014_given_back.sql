-- An item that was given back with a reason, and never failed, keeps that as its last error. Programs of thirteen migrations cannot
-- run on this schema.
ALTER TABLE item DROP CONSTRAINT item_check9;
ALTER TABLE item ADD CONSTRAINT item_failure CHECK (failure IS NULL OR failed > 0 OR released > 0);
