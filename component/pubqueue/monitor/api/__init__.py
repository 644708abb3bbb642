"""The operations for operators of queues as JSON over HTTP, for scripts: the same table as the page and the command line.

Requests that only read are GET, requests that change something are POST. The users are those of the page, with the same roles.
"""
