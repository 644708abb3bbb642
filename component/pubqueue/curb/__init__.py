"""`pubqueue curb`: one queue in one readable file, over STOMP 1.2. A program of its own, beside the service.

`lines` has the format of a message in the journal, `journal` the file, `queue` the subscribers and what each gets, `connection`
the protocol of one client, `server` all of them together. From the service it imports the codec of STOMP and the listener, and
nothing else.
"""
