"""Ad-hoc commands (XEP-0050): manage queues from any XMPP client that supports forms.

`table` lists the commands. Each has a few stages; a stage is a request to the core and the presentation of its reply.
`command_handler` handles the IQs; `sessions` keeps the stage of each execution. The core decides about rights.
"""
