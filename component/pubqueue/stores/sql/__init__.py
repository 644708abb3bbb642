"""What stores have in common that keep rows in SQL: rows to nouns and back, and the order in which they are written.

Each has its statements in .sql files of its own, under the same names and with the same values, and a `SqlSession` that
runs them.
"""
