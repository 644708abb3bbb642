"""What the SQL stores have in common: rows to structs and back, and the order in which rows are written.

Each store has its own statements in .sql files, under the same names and with the same values, and a `SqlSession` that runs
them.
"""
