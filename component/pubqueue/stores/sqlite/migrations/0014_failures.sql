-- Why an item failed last is kept with it as long as it lives. Programs of thirteen migrations cannot run on this schema.
ALTER TABLE item ADD COLUMN failure TEXT CHECK (failure IS NULL OR failed > 0);
