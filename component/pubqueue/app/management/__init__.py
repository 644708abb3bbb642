"""What those who run queues can do: one table of operations, called in several ways.

An operation says what it is called, what it is given, who may do it, what it asks the core, and what it answers, as rows of
typed cells. From the table the ad-hoc commands of the XMPP face are made (XEP-0050) and the commands of the command line; a page
over HTTP calls the same in its process. Whoever calls: what is allowed is decided by the core, for each request.
"""
