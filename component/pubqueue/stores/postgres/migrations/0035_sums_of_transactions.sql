-- The checksum of what the mark of an app and the row of a version mean (decision 164): NULL in rows that an earlier version has written, until it is
-- computed, in slices. Two indexes have only those rows. The third finds the mark of an app whose name is damaged by the half of the
-- checksum that is about the name: a mark that is not found would let a committed version be published once more.
ALTER TABLE txn_app ADD COLUMN sum bigint;
ALTER TABLE txn ADD COLUMN sum bigint;
CREATE INDEX txn_app_without_sum ON txn_app ((id + 0)) WHERE sum IS NULL;
CREATE INDEX txn_without_sum ON txn ((id + 0)) WHERE sum IS NULL;
CREATE INDEX txn_app_key ON txn_app ((sum >> 32));
