"""The client side of XEP-0254: plugins for slixmpp, and a worker library built on them."""
