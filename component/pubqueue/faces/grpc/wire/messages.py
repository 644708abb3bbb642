"""The messages and services of the protocol, in a pool of descriptors of their own.

Generated modules would register in protobuf's default pool, where the packages of other programs have some of the same names.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, ServiceDescriptor
    from google.protobuf.message import Message

    from pubqueue.faces.grpc.proto import iam as iam  # noqa: PLC0414  # names for others
    from pubqueue.faces.grpc.proto import tech as tech  # noqa: PLC0414
    from pubqueue.faces.grpc.proto import v1 as v1  # noqa: PLC0414


def _pool() -> DescriptorPool:
    pool = DescriptorPool()
    data = resources.files("pubqueue.faces.grpc.proto").joinpath("protos.binpb").read_bytes()
    for file in FileDescriptorSet.FromString(data).file:
        pool.Add(file)
    return pool


POOL = _pool()
"""All descriptors of the protocol, also for reflection."""


@cache
def class_of(full_name: str) -> type[Message]:
    """Return the class of a message. Raises KeyError for an unknown one."""
    return class_for(POOL.FindMessageTypeByName(full_name))


def class_for(descriptor: Descriptor) -> type[Message]:
    """Return the class of the messages of a descriptor."""
    return GetMessageClass(descriptor)


def service(full_name: str) -> ServiceDescriptor:
    """Return the descriptor of a service."""
    return POOL.FindServiceByName(full_name)


class _Package:
    """The classes of some packages, by their names."""

    def __init__(self, *packages: str) -> None:
        self._packages = packages

    def __getattr__(self, name: str) -> type[Message]:
        for package in self._packages:
            try:
                found = class_of(f"{package}.{name}")
            except KeyError:
                continue
            setattr(self, name, found)
            return found
        raise AttributeError(name)


if not TYPE_CHECKING:
    tech: Any = _Package("tech.pubsub", "tech.label", "proto2")
    v1: Any = _Package("google.pubsub.v1")
    iam: Any = _Package("google.iam.v1", "google.type")
