"""REST messaging: queues and topics over plain HTTP.

`http` has the parts that all requests share, `items` the headers and bodies of messages; each profile is a folder with a table
of routes.
"""
