"""Commands (XEP-0050): a queue is run from any XMPP client that can fill in a form.

`table` has the commands; each is a few stages, and a stage is a request of the core and what is shown of its reply.
`command_handler` takes the IQs, and knows who is at which stage of what (`sessions`). Who may do what is decided by the core.
"""
