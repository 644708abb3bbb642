"""The XMPP face: an external component (XEP-0114) that serves XEP-0060 and XEP-0254."""

from pubqueue.faces.xmpp.face import XmppFace

__all__ = ["XmppFace"]
