"""The operations for operators of queues: one table, called in several ways.

An operation defines its name, its parameters, the accounts that may call it, its request, and its answer, as rows of typed
cells. The ad-hoc commands of the XMPP face (XEP-0050), the commands of the command line and the JSON API are made from the
table; the page over HTTP calls the same operations in its process. For every caller, the rules judge the rights, request by request.
"""
