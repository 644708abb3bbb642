# Written by tools/protos.
from collections.abc import Iterable, Mapping, MutableMapping

from google.protobuf import duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2
from google.protobuf.internal.containers import RepeatedCompositeFieldContainer, RepeatedScalarFieldContainer
from google.protobuf.message import Message

SCHEMA_VIEW_UNSPECIFIED: int
BASIC: int
FULL: int

ENCODING_UNSPECIFIED: int
JSON: int
BINARY: int

class Schema(Message):
    TYPE_UNSPECIFIED: int
    PROTOCOL_BUFFER: int
    AVRO: int
    name: str
    type: int
    definition: str
    revision_id: str
    revision_create_time: timestamp_pb2.Timestamp
    def __init__(self, *, name: str | None = ..., type: int | None = ..., definition: str | None = ..., revision_id: str | None = ..., revision_create_time: timestamp_pb2.Timestamp | None = ...) -> None: ...

class CreateSchemaRequest(Message):
    parent: str
    schema: Schema
    schema_id: str
    def __init__(self, *, parent: str | None = ..., schema: Schema | None = ..., schema_id: str | None = ...) -> None: ...

class GetSchemaRequest(Message):
    name: str
    view: int
    def __init__(self, *, name: str | None = ..., view: int | None = ...) -> None: ...

class ListSchemasRequest(Message):
    parent: str
    view: int
    page_size: int
    page_token: str
    def __init__(self, *, parent: str | None = ..., view: int | None = ..., page_size: int | None = ..., page_token: str | None = ...) -> None: ...

class ListSchemasResponse(Message):
    schemas: RepeatedCompositeFieldContainer[Schema]
    next_page_token: str
    def __init__(self, *, schemas: Iterable[Schema] | None = ..., next_page_token: str | None = ...) -> None: ...

class ListSchemaRevisionsRequest(Message):
    name: str
    view: int
    page_size: int
    page_token: str
    def __init__(self, *, name: str | None = ..., view: int | None = ..., page_size: int | None = ..., page_token: str | None = ...) -> None: ...

class ListSchemaRevisionsResponse(Message):
    schemas: RepeatedCompositeFieldContainer[Schema]
    next_page_token: str
    def __init__(self, *, schemas: Iterable[Schema] | None = ..., next_page_token: str | None = ...) -> None: ...

class CommitSchemaRequest(Message):
    name: str
    schema: Schema
    def __init__(self, *, name: str | None = ..., schema: Schema | None = ...) -> None: ...

class RollbackSchemaRequest(Message):
    name: str
    revision_id: str
    def __init__(self, *, name: str | None = ..., revision_id: str | None = ...) -> None: ...

class DeleteSchemaRevisionRequest(Message):
    name: str
    revision_id: str
    def __init__(self, *, name: str | None = ..., revision_id: str | None = ...) -> None: ...

class DeleteSchemaRequest(Message):
    name: str
    def __init__(self, *, name: str | None = ...) -> None: ...

class ValidateSchemaRequest(Message):
    parent: str
    schema: Schema
    def __init__(self, *, parent: str | None = ..., schema: Schema | None = ...) -> None: ...

class ValidateSchemaResponse(Message):
    def __init__(self) -> None: ...

class ValidateMessageRequest(Message):
    parent: str
    name: str
    schema: Schema
    message: bytes
    encoding: int
    def __init__(self, *, parent: str | None = ..., name: str | None = ..., schema: Schema | None = ..., message: bytes | None = ..., encoding: int | None = ...) -> None: ...

class ValidateMessageResponse(Message):
    def __init__(self) -> None: ...

class MessageStoragePolicy(Message):
    allowed_persistence_regions: RepeatedScalarFieldContainer[str]
    enforce_in_transit: bool
    def __init__(self, *, allowed_persistence_regions: Iterable[str] | None = ..., enforce_in_transit: bool | None = ...) -> None: ...

class SchemaSettings(Message):
    schema: str
    encoding: int
    first_revision_id: str
    last_revision_id: str
    def __init__(self, *, schema: str | None = ..., encoding: int | None = ..., first_revision_id: str | None = ..., last_revision_id: str | None = ...) -> None: ...

class IngestionDataSourceSettings(Message):
    class AwsKinesis(Message):
        STATE_UNSPECIFIED: int
        ACTIVE: int
        KINESIS_PERMISSION_DENIED: int
        PUBLISH_PERMISSION_DENIED: int
        STREAM_NOT_FOUND: int
        CONSUMER_NOT_FOUND: int
        state: int
        stream_arn: str
        consumer_arn: str
        aws_role_arn: str
        gcp_service_account: str
        def __init__(self, *, state: int | None = ..., stream_arn: str | None = ..., consumer_arn: str | None = ..., aws_role_arn: str | None = ..., gcp_service_account: str | None = ...) -> None: ...
    class CloudStorage(Message):
        STATE_UNSPECIFIED: int
        ACTIVE: int
        CLOUD_STORAGE_PERMISSION_DENIED: int
        PUBLISH_PERMISSION_DENIED: int
        BUCKET_NOT_FOUND: int
        TOO_MANY_OBJECTS: int
        class TextFormat(Message):
            delimiter: str
            def __init__(self, *, delimiter: str | None = ...) -> None: ...
        class AvroFormat(Message):
            def __init__(self) -> None: ...
        class PubSubAvroFormat(Message):
            def __init__(self) -> None: ...
        state: int
        bucket: str
        text_format: IngestionDataSourceSettings.CloudStorage.TextFormat
        avro_format: IngestionDataSourceSettings.CloudStorage.AvroFormat
        pubsub_avro_format: IngestionDataSourceSettings.CloudStorage.PubSubAvroFormat
        minimum_object_create_time: timestamp_pb2.Timestamp
        match_glob: str
        def __init__(self, *, state: int | None = ..., bucket: str | None = ..., text_format: IngestionDataSourceSettings.CloudStorage.TextFormat | None = ..., avro_format: IngestionDataSourceSettings.CloudStorage.AvroFormat | None = ..., pubsub_avro_format: IngestionDataSourceSettings.CloudStorage.PubSubAvroFormat | None = ..., minimum_object_create_time: timestamp_pb2.Timestamp | None = ..., match_glob: str | None = ...) -> None: ...
    class AzureEventHubs(Message):
        STATE_UNSPECIFIED: int
        ACTIVE: int
        EVENT_HUBS_PERMISSION_DENIED: int
        PUBLISH_PERMISSION_DENIED: int
        NAMESPACE_NOT_FOUND: int
        EVENT_HUB_NOT_FOUND: int
        SUBSCRIPTION_NOT_FOUND: int
        RESOURCE_GROUP_NOT_FOUND: int
        state: int
        resource_group: str
        namespace: str
        event_hub: str
        client_id: str
        tenant_id: str
        subscription_id: str
        gcp_service_account: str
        def __init__(self, *, state: int | None = ..., resource_group: str | None = ..., namespace: str | None = ..., event_hub: str | None = ..., client_id: str | None = ..., tenant_id: str | None = ..., subscription_id: str | None = ..., gcp_service_account: str | None = ...) -> None: ...
    class AwsMsk(Message):
        STATE_UNSPECIFIED: int
        ACTIVE: int
        MSK_PERMISSION_DENIED: int
        PUBLISH_PERMISSION_DENIED: int
        CLUSTER_NOT_FOUND: int
        TOPIC_NOT_FOUND: int
        state: int
        cluster_arn: str
        topic: str
        aws_role_arn: str
        gcp_service_account: str
        def __init__(self, *, state: int | None = ..., cluster_arn: str | None = ..., topic: str | None = ..., aws_role_arn: str | None = ..., gcp_service_account: str | None = ...) -> None: ...
    class ConfluentCloud(Message):
        STATE_UNSPECIFIED: int
        ACTIVE: int
        CONFLUENT_CLOUD_PERMISSION_DENIED: int
        PUBLISH_PERMISSION_DENIED: int
        UNREACHABLE_BOOTSTRAP_SERVER: int
        CLUSTER_NOT_FOUND: int
        TOPIC_NOT_FOUND: int
        state: int
        bootstrap_server: str
        cluster_id: str
        topic: str
        identity_pool_id: str
        gcp_service_account: str
        def __init__(self, *, state: int | None = ..., bootstrap_server: str | None = ..., cluster_id: str | None = ..., topic: str | None = ..., identity_pool_id: str | None = ..., gcp_service_account: str | None = ...) -> None: ...
    aws_kinesis: IngestionDataSourceSettings.AwsKinesis
    cloud_storage: IngestionDataSourceSettings.CloudStorage
    azure_event_hubs: IngestionDataSourceSettings.AzureEventHubs
    aws_msk: IngestionDataSourceSettings.AwsMsk
    confluent_cloud: IngestionDataSourceSettings.ConfluentCloud
    platform_logs_settings: PlatformLogsSettings
    def __init__(self, *, aws_kinesis: IngestionDataSourceSettings.AwsKinesis | None = ..., cloud_storage: IngestionDataSourceSettings.CloudStorage | None = ..., azure_event_hubs: IngestionDataSourceSettings.AzureEventHubs | None = ..., aws_msk: IngestionDataSourceSettings.AwsMsk | None = ..., confluent_cloud: IngestionDataSourceSettings.ConfluentCloud | None = ..., platform_logs_settings: PlatformLogsSettings | None = ...) -> None: ...

class PlatformLogsSettings(Message):
    SEVERITY_UNSPECIFIED: int
    DISABLED: int
    DEBUG: int
    INFO: int
    WARNING: int
    ERROR: int
    severity: int
    def __init__(self, *, severity: int | None = ...) -> None: ...

class IngestionFailureEvent(Message):
    class ApiViolationReason(Message):
        def __init__(self) -> None: ...
    class AvroFailureReason(Message):
        def __init__(self) -> None: ...
    class SchemaViolationReason(Message):
        def __init__(self) -> None: ...
    class MessageTransformationFailureReason(Message):
        def __init__(self) -> None: ...
    class CloudStorageFailure(Message):
        bucket: str
        object_name: str
        object_generation: int
        avro_failure_reason: IngestionFailureEvent.AvroFailureReason
        api_violation_reason: IngestionFailureEvent.ApiViolationReason
        schema_violation_reason: IngestionFailureEvent.SchemaViolationReason
        message_transformation_failure_reason: IngestionFailureEvent.MessageTransformationFailureReason
        def __init__(self, *, bucket: str | None = ..., object_name: str | None = ..., object_generation: int | None = ..., avro_failure_reason: IngestionFailureEvent.AvroFailureReason | None = ..., api_violation_reason: IngestionFailureEvent.ApiViolationReason | None = ..., schema_violation_reason: IngestionFailureEvent.SchemaViolationReason | None = ..., message_transformation_failure_reason: IngestionFailureEvent.MessageTransformationFailureReason | None = ...) -> None: ...
    class AwsMskFailureReason(Message):
        cluster_arn: str
        kafka_topic: str
        partition_id: int
        offset: int
        api_violation_reason: IngestionFailureEvent.ApiViolationReason
        schema_violation_reason: IngestionFailureEvent.SchemaViolationReason
        message_transformation_failure_reason: IngestionFailureEvent.MessageTransformationFailureReason
        def __init__(self, *, cluster_arn: str | None = ..., kafka_topic: str | None = ..., partition_id: int | None = ..., offset: int | None = ..., api_violation_reason: IngestionFailureEvent.ApiViolationReason | None = ..., schema_violation_reason: IngestionFailureEvent.SchemaViolationReason | None = ..., message_transformation_failure_reason: IngestionFailureEvent.MessageTransformationFailureReason | None = ...) -> None: ...
    class AzureEventHubsFailureReason(Message):
        namespace: str
        event_hub: str
        partition_id: int
        offset: int
        api_violation_reason: IngestionFailureEvent.ApiViolationReason
        schema_violation_reason: IngestionFailureEvent.SchemaViolationReason
        message_transformation_failure_reason: IngestionFailureEvent.MessageTransformationFailureReason
        def __init__(self, *, namespace: str | None = ..., event_hub: str | None = ..., partition_id: int | None = ..., offset: int | None = ..., api_violation_reason: IngestionFailureEvent.ApiViolationReason | None = ..., schema_violation_reason: IngestionFailureEvent.SchemaViolationReason | None = ..., message_transformation_failure_reason: IngestionFailureEvent.MessageTransformationFailureReason | None = ...) -> None: ...
    class ConfluentCloudFailureReason(Message):
        cluster_id: str
        kafka_topic: str
        partition_id: int
        offset: int
        api_violation_reason: IngestionFailureEvent.ApiViolationReason
        schema_violation_reason: IngestionFailureEvent.SchemaViolationReason
        message_transformation_failure_reason: IngestionFailureEvent.MessageTransformationFailureReason
        def __init__(self, *, cluster_id: str | None = ..., kafka_topic: str | None = ..., partition_id: int | None = ..., offset: int | None = ..., api_violation_reason: IngestionFailureEvent.ApiViolationReason | None = ..., schema_violation_reason: IngestionFailureEvent.SchemaViolationReason | None = ..., message_transformation_failure_reason: IngestionFailureEvent.MessageTransformationFailureReason | None = ...) -> None: ...
    class AwsKinesisFailureReason(Message):
        stream_arn: str
        partition_key: str
        sequence_number: str
        schema_violation_reason: IngestionFailureEvent.SchemaViolationReason
        message_transformation_failure_reason: IngestionFailureEvent.MessageTransformationFailureReason
        api_violation_reason: IngestionFailureEvent.ApiViolationReason
        def __init__(self, *, stream_arn: str | None = ..., partition_key: str | None = ..., sequence_number: str | None = ..., schema_violation_reason: IngestionFailureEvent.SchemaViolationReason | None = ..., message_transformation_failure_reason: IngestionFailureEvent.MessageTransformationFailureReason | None = ..., api_violation_reason: IngestionFailureEvent.ApiViolationReason | None = ...) -> None: ...
    topic: str
    error_message: str
    cloud_storage_failure: IngestionFailureEvent.CloudStorageFailure
    aws_msk_failure: IngestionFailureEvent.AwsMskFailureReason
    azure_event_hubs_failure: IngestionFailureEvent.AzureEventHubsFailureReason
    confluent_cloud_failure: IngestionFailureEvent.ConfluentCloudFailureReason
    aws_kinesis_failure: IngestionFailureEvent.AwsKinesisFailureReason
    def __init__(self, *, topic: str | None = ..., error_message: str | None = ..., cloud_storage_failure: IngestionFailureEvent.CloudStorageFailure | None = ..., aws_msk_failure: IngestionFailureEvent.AwsMskFailureReason | None = ..., azure_event_hubs_failure: IngestionFailureEvent.AzureEventHubsFailureReason | None = ..., confluent_cloud_failure: IngestionFailureEvent.ConfluentCloudFailureReason | None = ..., aws_kinesis_failure: IngestionFailureEvent.AwsKinesisFailureReason | None = ...) -> None: ...

class JavaScriptUDF(Message):
    function_name: str
    code: str
    def __init__(self, *, function_name: str | None = ..., code: str | None = ...) -> None: ...

class AIInference(Message):
    class UnstructuredInference(Message):
        parameters: struct_pb2.Struct
        def __init__(self, *, parameters: struct_pb2.Struct | None = ...) -> None: ...
    endpoint: str
    unstructured_inference: AIInference.UnstructuredInference
    service_account_email: str
    def __init__(self, *, endpoint: str | None = ..., unstructured_inference: AIInference.UnstructuredInference | None = ..., service_account_email: str | None = ...) -> None: ...

class MessageTransform(Message):
    javascript_udf: JavaScriptUDF
    ai_inference: AIInference
    enabled: bool
    disabled: bool
    def __init__(self, *, javascript_udf: JavaScriptUDF | None = ..., ai_inference: AIInference | None = ..., enabled: bool | None = ..., disabled: bool | None = ...) -> None: ...

class Topic(Message):
    STATE_UNSPECIFIED: int
    ACTIVE: int
    INGESTION_RESOURCE_ERROR: int
    name: str
    labels: MutableMapping[str, str]
    message_storage_policy: MessageStoragePolicy
    kms_key_name: str
    schema_settings: SchemaSettings
    satisfies_pzs: bool
    message_retention_duration: duration_pb2.Duration
    state: int
    ingestion_data_source_settings: IngestionDataSourceSettings
    message_transforms: RepeatedCompositeFieldContainer[MessageTransform]
    tags: MutableMapping[str, str]
    def __init__(self, *, name: str | None = ..., labels: Mapping[str, str] | None = ..., message_storage_policy: MessageStoragePolicy | None = ..., kms_key_name: str | None = ..., schema_settings: SchemaSettings | None = ..., satisfies_pzs: bool | None = ..., message_retention_duration: duration_pb2.Duration | None = ..., state: int | None = ..., ingestion_data_source_settings: IngestionDataSourceSettings | None = ..., message_transforms: Iterable[MessageTransform] | None = ..., tags: Mapping[str, str] | None = ...) -> None: ...

class PubsubMessage(Message):
    data: bytes
    attributes: MutableMapping[str, str]
    message_id: str
    publish_time: timestamp_pb2.Timestamp
    ordering_key: str
    def __init__(self, *, data: bytes | None = ..., attributes: Mapping[str, str] | None = ..., message_id: str | None = ..., publish_time: timestamp_pb2.Timestamp | None = ..., ordering_key: str | None = ...) -> None: ...

class GetTopicRequest(Message):
    topic: str
    def __init__(self, *, topic: str | None = ...) -> None: ...

class UpdateTopicRequest(Message):
    topic: Topic
    update_mask: field_mask_pb2.FieldMask
    def __init__(self, *, topic: Topic | None = ..., update_mask: field_mask_pb2.FieldMask | None = ...) -> None: ...

class PublishRequest(Message):
    topic: str
    messages: RepeatedCompositeFieldContainer[PubsubMessage]
    def __init__(self, *, topic: str | None = ..., messages: Iterable[PubsubMessage] | None = ...) -> None: ...

class PublishResponse(Message):
    message_ids: RepeatedScalarFieldContainer[str]
    def __init__(self, *, message_ids: Iterable[str] | None = ...) -> None: ...

class ListTopicsRequest(Message):
    project: str
    page_size: int
    page_token: str
    def __init__(self, *, project: str | None = ..., page_size: int | None = ..., page_token: str | None = ...) -> None: ...

class ListTopicsResponse(Message):
    topics: RepeatedCompositeFieldContainer[Topic]
    next_page_token: str
    def __init__(self, *, topics: Iterable[Topic] | None = ..., next_page_token: str | None = ...) -> None: ...

class ListTopicSubscriptionsRequest(Message):
    topic: str
    page_size: int
    page_token: str
    def __init__(self, *, topic: str | None = ..., page_size: int | None = ..., page_token: str | None = ...) -> None: ...

class ListTopicSubscriptionsResponse(Message):
    subscriptions: RepeatedScalarFieldContainer[str]
    next_page_token: str
    def __init__(self, *, subscriptions: Iterable[str] | None = ..., next_page_token: str | None = ...) -> None: ...

class ListTopicSnapshotsRequest(Message):
    topic: str
    page_size: int
    page_token: str
    def __init__(self, *, topic: str | None = ..., page_size: int | None = ..., page_token: str | None = ...) -> None: ...

class ListTopicSnapshotsResponse(Message):
    snapshots: RepeatedScalarFieldContainer[str]
    next_page_token: str
    def __init__(self, *, snapshots: Iterable[str] | None = ..., next_page_token: str | None = ...) -> None: ...

class DeleteTopicRequest(Message):
    topic: str
    def __init__(self, *, topic: str | None = ...) -> None: ...

class DetachSubscriptionRequest(Message):
    subscription: str
    def __init__(self, *, subscription: str | None = ...) -> None: ...

class DetachSubscriptionResponse(Message):
    def __init__(self) -> None: ...

class Subscription(Message):
    STATE_UNSPECIFIED: int
    ACTIVE: int
    RESOURCE_ERROR: int
    class AnalyticsHubSubscriptionInfo(Message):
        listing: str
        subscription: str
        def __init__(self, *, listing: str | None = ..., subscription: str | None = ...) -> None: ...
    name: str
    topic: str
    push_config: PushConfig
    bigquery_config: BigQueryConfig
    cloud_storage_config: CloudStorageConfig
    bigtable_config: BigtableConfig
    ack_deadline_seconds: int
    retain_acked_messages: bool
    message_retention_duration: duration_pb2.Duration
    labels: MutableMapping[str, str]
    enable_message_ordering: bool
    expiration_policy: ExpirationPolicy
    filter: str
    dead_letter_policy: DeadLetterPolicy
    retry_policy: RetryPolicy
    detached: bool
    enable_exactly_once_delivery: bool
    topic_message_retention_duration: duration_pb2.Duration
    state: int
    analytics_hub_subscription_info: Subscription.AnalyticsHubSubscriptionInfo
    message_transforms: RepeatedCompositeFieldContainer[MessageTransform]
    tags: MutableMapping[str, str]
    def __init__(self, *, name: str | None = ..., topic: str | None = ..., push_config: PushConfig | None = ..., bigquery_config: BigQueryConfig | None = ..., cloud_storage_config: CloudStorageConfig | None = ..., bigtable_config: BigtableConfig | None = ..., ack_deadline_seconds: int | None = ..., retain_acked_messages: bool | None = ..., message_retention_duration: duration_pb2.Duration | None = ..., labels: Mapping[str, str] | None = ..., enable_message_ordering: bool | None = ..., expiration_policy: ExpirationPolicy | None = ..., filter: str | None = ..., dead_letter_policy: DeadLetterPolicy | None = ..., retry_policy: RetryPolicy | None = ..., detached: bool | None = ..., enable_exactly_once_delivery: bool | None = ..., topic_message_retention_duration: duration_pb2.Duration | None = ..., state: int | None = ..., analytics_hub_subscription_info: Subscription.AnalyticsHubSubscriptionInfo | None = ..., message_transforms: Iterable[MessageTransform] | None = ..., tags: Mapping[str, str] | None = ...) -> None: ...

class RetryPolicy(Message):
    minimum_backoff: duration_pb2.Duration
    maximum_backoff: duration_pb2.Duration
    def __init__(self, *, minimum_backoff: duration_pb2.Duration | None = ..., maximum_backoff: duration_pb2.Duration | None = ...) -> None: ...

class DeadLetterPolicy(Message):
    dead_letter_topic: str
    max_delivery_attempts: int
    def __init__(self, *, dead_letter_topic: str | None = ..., max_delivery_attempts: int | None = ...) -> None: ...

class ExpirationPolicy(Message):
    ttl: duration_pb2.Duration
    def __init__(self, *, ttl: duration_pb2.Duration | None = ...) -> None: ...

class PushConfig(Message):
    class OidcToken(Message):
        service_account_email: str
        audience: str
        def __init__(self, *, service_account_email: str | None = ..., audience: str | None = ...) -> None: ...
    class PubsubWrapper(Message):
        def __init__(self) -> None: ...
    class NoWrapper(Message):
        write_metadata: bool
        def __init__(self, *, write_metadata: bool | None = ...) -> None: ...
    push_endpoint: str
    attributes: MutableMapping[str, str]
    oidc_token: PushConfig.OidcToken
    pubsub_wrapper: PushConfig.PubsubWrapper
    no_wrapper: PushConfig.NoWrapper
    def __init__(self, *, push_endpoint: str | None = ..., attributes: Mapping[str, str] | None = ..., oidc_token: PushConfig.OidcToken | None = ..., pubsub_wrapper: PushConfig.PubsubWrapper | None = ..., no_wrapper: PushConfig.NoWrapper | None = ...) -> None: ...

class BigQueryConfig(Message):
    STATE_UNSPECIFIED: int
    ACTIVE: int
    PERMISSION_DENIED: int
    NOT_FOUND: int
    SCHEMA_MISMATCH: int
    IN_TRANSIT_LOCATION_RESTRICTION: int
    VERTEX_AI_LOCATION_RESTRICTION: int
    table: str
    use_topic_schema: bool
    write_metadata: bool
    drop_unknown_fields: bool
    state: int
    use_table_schema: bool
    service_account_email: str
    def __init__(self, *, table: str | None = ..., use_topic_schema: bool | None = ..., write_metadata: bool | None = ..., drop_unknown_fields: bool | None = ..., state: int | None = ..., use_table_schema: bool | None = ..., service_account_email: str | None = ...) -> None: ...

class BigtableConfig(Message):
    STATE_UNSPECIFIED: int
    ACTIVE: int
    NOT_FOUND: int
    APP_PROFILE_MISCONFIGURED: int
    PERMISSION_DENIED: int
    SCHEMA_MISMATCH: int
    IN_TRANSIT_LOCATION_RESTRICTION: int
    VERTEX_AI_LOCATION_RESTRICTION: int
    table: str
    app_profile_id: str
    service_account_email: str
    write_metadata: bool
    state: int
    def __init__(self, *, table: str | None = ..., app_profile_id: str | None = ..., service_account_email: str | None = ..., write_metadata: bool | None = ..., state: int | None = ...) -> None: ...

class CloudStorageConfig(Message):
    STATE_UNSPECIFIED: int
    ACTIVE: int
    PERMISSION_DENIED: int
    NOT_FOUND: int
    IN_TRANSIT_LOCATION_RESTRICTION: int
    SCHEMA_MISMATCH: int
    VERTEX_AI_LOCATION_RESTRICTION: int
    class TextConfig(Message):
        def __init__(self) -> None: ...
    class AvroConfig(Message):
        write_metadata: bool
        use_topic_schema: bool
        def __init__(self, *, write_metadata: bool | None = ..., use_topic_schema: bool | None = ...) -> None: ...
    bucket: str
    filename_prefix: str
    filename_suffix: str
    filename_datetime_format: str
    text_config: CloudStorageConfig.TextConfig
    avro_config: CloudStorageConfig.AvroConfig
    max_duration: duration_pb2.Duration
    max_bytes: int
    max_messages: int
    state: int
    service_account_email: str
    def __init__(self, *, bucket: str | None = ..., filename_prefix: str | None = ..., filename_suffix: str | None = ..., filename_datetime_format: str | None = ..., text_config: CloudStorageConfig.TextConfig | None = ..., avro_config: CloudStorageConfig.AvroConfig | None = ..., max_duration: duration_pb2.Duration | None = ..., max_bytes: int | None = ..., max_messages: int | None = ..., state: int | None = ..., service_account_email: str | None = ...) -> None: ...

class ReceivedMessage(Message):
    ack_id: str
    message: PubsubMessage
    delivery_attempt: int
    def __init__(self, *, ack_id: str | None = ..., message: PubsubMessage | None = ..., delivery_attempt: int | None = ...) -> None: ...

class GetSubscriptionRequest(Message):
    subscription: str
    def __init__(self, *, subscription: str | None = ...) -> None: ...

class UpdateSubscriptionRequest(Message):
    subscription: Subscription
    update_mask: field_mask_pb2.FieldMask
    def __init__(self, *, subscription: Subscription | None = ..., update_mask: field_mask_pb2.FieldMask | None = ...) -> None: ...

class ListSubscriptionsRequest(Message):
    project: str
    page_size: int
    page_token: str
    def __init__(self, *, project: str | None = ..., page_size: int | None = ..., page_token: str | None = ...) -> None: ...

class ListSubscriptionsResponse(Message):
    subscriptions: RepeatedCompositeFieldContainer[Subscription]
    next_page_token: str
    def __init__(self, *, subscriptions: Iterable[Subscription] | None = ..., next_page_token: str | None = ...) -> None: ...

class DeleteSubscriptionRequest(Message):
    subscription: str
    def __init__(self, *, subscription: str | None = ...) -> None: ...

class ModifyPushConfigRequest(Message):
    subscription: str
    push_config: PushConfig
    def __init__(self, *, subscription: str | None = ..., push_config: PushConfig | None = ...) -> None: ...

class PullRequest(Message):
    subscription: str
    return_immediately: bool
    max_messages: int
    def __init__(self, *, subscription: str | None = ..., return_immediately: bool | None = ..., max_messages: int | None = ...) -> None: ...

class PullResponse(Message):
    received_messages: RepeatedCompositeFieldContainer[ReceivedMessage]
    def __init__(self, *, received_messages: Iterable[ReceivedMessage] | None = ...) -> None: ...

class ModifyAckDeadlineRequest(Message):
    subscription: str
    ack_ids: RepeatedScalarFieldContainer[str]
    ack_deadline_seconds: int
    def __init__(self, *, subscription: str | None = ..., ack_ids: Iterable[str] | None = ..., ack_deadline_seconds: int | None = ...) -> None: ...

class AcknowledgeRequest(Message):
    subscription: str
    ack_ids: RepeatedScalarFieldContainer[str]
    def __init__(self, *, subscription: str | None = ..., ack_ids: Iterable[str] | None = ...) -> None: ...

class StreamingPullRequest(Message):
    subscription: str
    ack_ids: RepeatedScalarFieldContainer[str]
    modify_deadline_seconds: RepeatedScalarFieldContainer[int]
    modify_deadline_ack_ids: RepeatedScalarFieldContainer[str]
    stream_ack_deadline_seconds: int
    client_id: str
    max_outstanding_messages: int
    max_outstanding_bytes: int
    protocol_version: int
    def __init__(self, *, subscription: str | None = ..., ack_ids: Iterable[str] | None = ..., modify_deadline_seconds: Iterable[int] | None = ..., modify_deadline_ack_ids: Iterable[str] | None = ..., stream_ack_deadline_seconds: int | None = ..., client_id: str | None = ..., max_outstanding_messages: int | None = ..., max_outstanding_bytes: int | None = ..., protocol_version: int | None = ...) -> None: ...

class StreamingPullResponse(Message):
    class AcknowledgeConfirmation(Message):
        ack_ids: RepeatedScalarFieldContainer[str]
        invalid_ack_ids: RepeatedScalarFieldContainer[str]
        unordered_ack_ids: RepeatedScalarFieldContainer[str]
        temporary_failed_ack_ids: RepeatedScalarFieldContainer[str]
        def __init__(self, *, ack_ids: Iterable[str] | None = ..., invalid_ack_ids: Iterable[str] | None = ..., unordered_ack_ids: Iterable[str] | None = ..., temporary_failed_ack_ids: Iterable[str] | None = ...) -> None: ...
    class ModifyAckDeadlineConfirmation(Message):
        ack_ids: RepeatedScalarFieldContainer[str]
        invalid_ack_ids: RepeatedScalarFieldContainer[str]
        temporary_failed_ack_ids: RepeatedScalarFieldContainer[str]
        def __init__(self, *, ack_ids: Iterable[str] | None = ..., invalid_ack_ids: Iterable[str] | None = ..., temporary_failed_ack_ids: Iterable[str] | None = ...) -> None: ...
    class SubscriptionProperties(Message):
        exactly_once_delivery_enabled: bool
        message_ordering_enabled: bool
        def __init__(self, *, exactly_once_delivery_enabled: bool | None = ..., message_ordering_enabled: bool | None = ...) -> None: ...
    received_messages: RepeatedCompositeFieldContainer[ReceivedMessage]
    acknowledge_confirmation: StreamingPullResponse.AcknowledgeConfirmation
    modify_ack_deadline_confirmation: StreamingPullResponse.ModifyAckDeadlineConfirmation
    subscription_properties: StreamingPullResponse.SubscriptionProperties
    def __init__(self, *, received_messages: Iterable[ReceivedMessage] | None = ..., acknowledge_confirmation: StreamingPullResponse.AcknowledgeConfirmation | None = ..., modify_ack_deadline_confirmation: StreamingPullResponse.ModifyAckDeadlineConfirmation | None = ..., subscription_properties: StreamingPullResponse.SubscriptionProperties | None = ...) -> None: ...

class CreateSnapshotRequest(Message):
    name: str
    subscription: str
    labels: MutableMapping[str, str]
    tags: MutableMapping[str, str]
    def __init__(self, *, name: str | None = ..., subscription: str | None = ..., labels: Mapping[str, str] | None = ..., tags: Mapping[str, str] | None = ...) -> None: ...

class UpdateSnapshotRequest(Message):
    snapshot: Snapshot
    update_mask: field_mask_pb2.FieldMask
    def __init__(self, *, snapshot: Snapshot | None = ..., update_mask: field_mask_pb2.FieldMask | None = ...) -> None: ...

class Snapshot(Message):
    name: str
    topic: str
    expire_time: timestamp_pb2.Timestamp
    labels: MutableMapping[str, str]
    def __init__(self, *, name: str | None = ..., topic: str | None = ..., expire_time: timestamp_pb2.Timestamp | None = ..., labels: Mapping[str, str] | None = ...) -> None: ...

class GetSnapshotRequest(Message):
    snapshot: str
    def __init__(self, *, snapshot: str | None = ...) -> None: ...

class ListSnapshotsRequest(Message):
    project: str
    page_size: int
    page_token: str
    def __init__(self, *, project: str | None = ..., page_size: int | None = ..., page_token: str | None = ...) -> None: ...

class ListSnapshotsResponse(Message):
    snapshots: RepeatedCompositeFieldContainer[Snapshot]
    next_page_token: str
    def __init__(self, *, snapshots: Iterable[Snapshot] | None = ..., next_page_token: str | None = ...) -> None: ...

class DeleteSnapshotRequest(Message):
    snapshot: str
    def __init__(self, *, snapshot: str | None = ...) -> None: ...

class SeekRequest(Message):
    subscription: str
    time: timestamp_pb2.Timestamp
    snapshot: str
    def __init__(self, *, subscription: str | None = ..., time: timestamp_pb2.Timestamp | None = ..., snapshot: str | None = ...) -> None: ...

class SeekResponse(Message):
    def __init__(self) -> None: ...
