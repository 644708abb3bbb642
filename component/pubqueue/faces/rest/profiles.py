"""The profiles of REST messaging that a service can have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.faces.rest.hornetq.routes import profile as hornetq
from pubqueue.faces.rest.star.routes import profile as rest_star

if TYPE_CHECKING:
    from pubqueue.faces.rest.links import Profile
    from pubqueue.faces.rest.settings import RestSettings

PROFILES: Final = {"rest-star": rest_star, "hornetq": hornetq}
"""How each profile is made, from its prefix."""


def profiles_of(settings: RestSettings) -> list[Profile]:
    """Return the profiles that are served."""
    return [PROFILES[name](prefix) for name, prefix in settings.prefixes().items()]
