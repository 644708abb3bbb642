-- Why an item failed last is kept with it as long as it lives. Programs of seven migrations cannot run on this schema.
ALTER TABLE item ADD COLUMN failure text CHECK (failure IS NULL OR failed > 0);
