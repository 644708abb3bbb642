"""pubqueue as a Spark data source: rows of a DataFrame become items of a work queue.

Import nothing here: Spark imports this package to look a format up, also in jobs that do not use it.
"""
