"""The page in the browser: queues with plots of the last hours, one queue, its items, and what can be done about them.

HTML comes from the server, and works without the script, which only brings what is shown up to date. All is relative to
`/ui/`, so that a proxy may put it elsewhere. Nothing comes from another host.
"""
