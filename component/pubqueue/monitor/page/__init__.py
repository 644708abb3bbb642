"""The page in the browser: queues with plots of the last hours, one queue, its items, and the actions on them.

The server sends HTML, which also works without the script; the script only updates what is shown. All addresses are
relative to `/ui/`, so that a proxy can serve the page at another path. Nothing is loaded from another host.
"""
