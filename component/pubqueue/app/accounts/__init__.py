"""The accounts of the service itself: users, their authentication, and the limits of wrong attempts.

They are for protocols whose clients log in here, and for the page. Accounts of XMPP are authenticated by their servers.
"""

from pubqueue.app.accounts.accounts import Accounts, Denied, Proven
from pubqueue.app.accounts.model import Bearer, Certificate, Plain, Role, User

__all__ = ["Accounts", "Bearer", "Certificate", "Denied", "Plain", "Proven", "Role", "User"]
