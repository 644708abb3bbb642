-- An item that was given back with a reason, and never failed, keeps that as its last error. A CHECK goes with its column alone,
-- so the column is made anew. Programs of eighteen migrations cannot run on this schema.
ALTER TABLE item RENAME COLUMN failure TO former_failure;
ALTER TABLE item ADD COLUMN failure TEXT CHECK (failure IS NULL OR failed > 0 OR released > 0);
UPDATE item SET failure = former_failure WHERE former_failure IS NOT NULL;
ALTER TABLE item DROP COLUMN former_failure;
