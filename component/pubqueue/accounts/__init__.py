"""The accounts of the service itself: users, their authentication, and the limits of wrong attempts.

They are for protocols whose clients log in here, and for the page. Accounts of XMPP are authenticated by their servers.
"""
