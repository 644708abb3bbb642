"""pubqueue: a durable work queue in an XMPP network (XEP-0060 nodes, XEP-0254 queueing)."""

from importlib.metadata import version

__version__ = version("pubqueue")
