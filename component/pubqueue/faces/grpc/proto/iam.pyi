# Written by tools/protos.
from collections.abc import Iterable, Mapping, MutableMapping

from google.protobuf import duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2
from google.protobuf.internal.containers import RepeatedCompositeFieldContainer, RepeatedScalarFieldContainer
from google.protobuf.message import Message

class GetPolicyOptions(Message):
    requested_policy_version: int
    def __init__(self, *, requested_policy_version: int | None = ...) -> None: ...

class Expr(Message):
    expression: str
    title: str
    description: str
    location: str
    def __init__(self, *, expression: str | None = ..., title: str | None = ..., description: str | None = ..., location: str | None = ...) -> None: ...

class Policy(Message):
    version: int
    bindings: RepeatedCompositeFieldContainer[Binding]
    audit_configs: RepeatedCompositeFieldContainer[AuditConfig]
    etag: bytes
    def __init__(self, *, version: int | None = ..., bindings: Iterable[Binding] | None = ..., audit_configs: Iterable[AuditConfig] | None = ..., etag: bytes | None = ...) -> None: ...

class Binding(Message):
    role: str
    members: RepeatedScalarFieldContainer[str]
    condition: Expr
    def __init__(self, *, role: str | None = ..., members: Iterable[str] | None = ..., condition: Expr | None = ...) -> None: ...

class AuditConfig(Message):
    service: str
    audit_log_configs: RepeatedCompositeFieldContainer[AuditLogConfig]
    def __init__(self, *, service: str | None = ..., audit_log_configs: Iterable[AuditLogConfig] | None = ...) -> None: ...

class AuditLogConfig(Message):
    LOG_TYPE_UNSPECIFIED: int
    ADMIN_READ: int
    DATA_WRITE: int
    DATA_READ: int
    log_type: int
    exempted_members: RepeatedScalarFieldContainer[str]
    def __init__(self, *, log_type: int | None = ..., exempted_members: Iterable[str] | None = ...) -> None: ...

class PolicyDelta(Message):
    binding_deltas: RepeatedCompositeFieldContainer[BindingDelta]
    audit_config_deltas: RepeatedCompositeFieldContainer[AuditConfigDelta]
    def __init__(self, *, binding_deltas: Iterable[BindingDelta] | None = ..., audit_config_deltas: Iterable[AuditConfigDelta] | None = ...) -> None: ...

class BindingDelta(Message):
    ACTION_UNSPECIFIED: int
    ADD: int
    REMOVE: int
    action: int
    role: str
    member: str
    condition: Expr
    def __init__(self, *, action: int | None = ..., role: str | None = ..., member: str | None = ..., condition: Expr | None = ...) -> None: ...

class AuditConfigDelta(Message):
    ACTION_UNSPECIFIED: int
    ADD: int
    REMOVE: int
    action: int
    service: str
    exempted_member: str
    log_type: str
    def __init__(self, *, action: int | None = ..., service: str | None = ..., exempted_member: str | None = ..., log_type: str | None = ...) -> None: ...

class SetIamPolicyRequest(Message):
    resource: str
    policy: Policy
    update_mask: field_mask_pb2.FieldMask
    def __init__(self, *, resource: str | None = ..., policy: Policy | None = ..., update_mask: field_mask_pb2.FieldMask | None = ...) -> None: ...

class GetIamPolicyRequest(Message):
    resource: str
    options: GetPolicyOptions
    def __init__(self, *, resource: str | None = ..., options: GetPolicyOptions | None = ...) -> None: ...

class TestIamPermissionsRequest(Message):
    resource: str
    permissions: RepeatedScalarFieldContainer[str]
    def __init__(self, *, resource: str | None = ..., permissions: Iterable[str] | None = ...) -> None: ...

class TestIamPermissionsResponse(Message):
    permissions: RepeatedScalarFieldContainer[str]
    def __init__(self, *, permissions: Iterable[str] | None = ...) -> None: ...
