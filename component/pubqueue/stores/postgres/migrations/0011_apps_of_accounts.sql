-- The name of an app is its account's: two accounts may call theirs alike. So it is kept under both names, the account's first.
-- Programs of ten migrations cannot run on this schema.
UPDATE txn_app SET name = owner || chr(31) || name;
