-- The checksum of what a row means (decision 151): NULL in rows that an earlier version has written, until it is computed, in slices. The indexes
-- have only those rows; they are of expressions, so that nobody who looks for a row by its key takes them.
ALTER TABLE node ADD COLUMN sum INTEGER;
ALTER TABLE affiliation ADD COLUMN sum INTEGER;
ALTER TABLE subscription ADD COLUMN sum INTEGER;
ALTER TABLE schedule ADD COLUMN sum INTEGER;
ALTER TABLE registration ADD COLUMN sum INTEGER;
CREATE INDEX node_without_sum ON node (id + 0) WHERE sum IS NULL;
CREATE INDEX affiliation_without_sum ON affiliation (node_id + 0) WHERE sum IS NULL;
CREATE INDEX subscription_without_sum ON subscription (id + 0) WHERE sum IS NULL;
CREATE INDEX schedule_without_sum ON schedule (name || '') WHERE sum IS NULL;
CREATE INDEX registration_without_sum ON registration (name || '') WHERE sum IS NULL;
