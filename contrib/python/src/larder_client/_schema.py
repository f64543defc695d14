"""The types of the protocol: parameters and results of the methods.

Protocol/generate.py writes this file.
"""

from typing import Any, Literal, NotRequired, TypedDict


class Acknowledgement(TypedDict):
    """An object of the protocol.

    namespace: Name of a namespace that the settings declare.
    revision: Number of a published snapshot. It increases with each snapshot, never decreases, and survives restarts. 0
        if nothing has been published.
    at: RFC 3339 time in UTC with milliseconds.
    """

    namespace: str
    revision: int
    accepted: bool
    reason: NotRequired[str]
    at: str


class AgentClientsClient(TypedDict):
    """An object of the protocol.

    id: ID of the connection. It is not reused while the agent runs.
    command: Short name of the process; "" if unknown.
    connectedAt: RFC 3339 time in UTC with milliseconds.
    pendingBytes: Bytes of output that the client has not accepted yet.
    acknowledged: The client's last acknowledgement for each namespace, in ascending order of namespace.
    """

    id: int
    pid: int
    uid: int
    gid: int
    command: str
    connectedAt: str
    requests: int
    subscriptions: int
    bytesReceived: int
    bytesSent: int
    pendingBytes: int
    acknowledged: list[Acknowledgement]


class AgentClientsResult(TypedDict):
    """The result of agent.clients."""

    clients: list[AgentClientsClient]


class AgentInfoProblem(TypedDict):
    """An object of the protocol.

    name: `namespace`: a namespace of the settings was not opened; `imageIndex`: changes of the image cache cannot be
        written to disk; `imageSpace`: the disk has no room for new images beside `images.minimumFreeBytes`;
        `settingsCopy`: the settings cannot be saved; `report`: the receiver of reports did not accept the last one.
        Later versions may add names.
    message: Description of the problem, for people.
    """

    name: str
    message: str


class AgentInfoLimits(TypedDict):
    """An object of the protocol.

    lineBytes: Maximum length of a line from a client, in bytes.
    batch: Maximum number of requests in a batch.
    nesting: Maximum nesting depth of arrays and objects.
    connections: Maximum number of connections.
    subscriptionsPerConnection: Maximum number of subscriptions of one connection.
    requestsInFlightPerConnection: Maximum number of unanswered requests of one connection.
    sendTimeoutMilliseconds: How long a client may accept no byte of pending output.
    connectionsPerUser: Maximum number of connections of one user.
    subscriptionsPerUser: Maximum number of subscriptions of all connections of one user.
    requestsInFlightPerUser: Maximum number of unanswered requests of all connections of one user.
    leasesPerUser: Maximum number of image leases of all connections of one user.
    queuedBytesPerUser: Maximum number of bytes buffered for all connections of one user.
    """

    lineBytes: int
    batch: int
    nesting: int
    connections: int
    subscriptionsPerConnection: int
    requestsInFlightPerConnection: int
    sendTimeoutMilliseconds: int
    connectionsPerUser: int
    subscriptionsPerUser: int
    requestsInFlightPerUser: int
    leasesPerUser: int
    queuedBytesPerUser: int


class AgentInfoPeer(TypedDict):
    """The caller's credentials."""

    pid: int
    uid: int
    gid: int


class AgentInfoResult(TypedDict):
    """The result of agent.info.

    protocol: Version of this protocol.
    startedAt: RFC 3339 time in UTC with milliseconds.
    epoch: Random ID of the state directory's lifetime. Revisions of different epochs cannot be compared.
    socket: Path of the socket. For an abstract socket, @ and its name.
    activated: Whether the service manager passed the socket to the agent.
    imageDirectory: Directory of the cached images; null if the image cache is disabled or cannot be used.
    imageProblem: Why the image cache cannot be used although the settings enable it; absent otherwise.
    threadProblem: Why the agent cannot start threads, so that requests that need one wait; absent otherwise.
    settings: Path of the settings file; null without one.
    settingsReadAt: When the settings in force were read: at the start, or by the last successful reload. If the file
        was invalid at the start, when an earlier process read the saved settings that are in force instead.
    settingsProblem: Why the settings file was rejected at the start or by the last reload, so that the settings applied
        before it are in force; absent otherwise.
    problems: The problems that neither another member nor `config.status` reports. Absent in agents before this member
        was added.
    namespaces: The namespaces that the caller may read, in ascending order.
    peer: The caller's credentials.
    rights: The caller's rights, except in namespaces with their own access rules.
    namespaceRights: The caller's rights in each namespace with its own access rules. Namespaces in which the caller has
        no rights are left out.
    """

    name: Literal["larderd"]
    version: str
    protocol: Literal[1]
    pid: int
    startedAt: str
    uptimeMilliseconds: int
    epoch: str
    socket: str
    activated: bool
    stateDirectory: str
    imageDirectory: str | None
    imageProblem: NotRequired[str]
    threadProblem: NotRequired[str]
    settings: str | None
    settingsReadAt: str
    settingsProblem: NotRequired[str]
    problems: NotRequired[list[AgentInfoProblem]]
    namespaces: list[str]
    limits: AgentInfoLimits
    peer: AgentInfoPeer
    rights: list[Literal["read", "write", "push", "administer", "secrets", "images", "monitor"]]
    namespaceRights: dict[str, list[Literal["read", "write", "push", "administer", "secrets", "images", "monitor"]]]


class AgentMetricsSubscriptions(TypedDict):
    """An object of the protocol.

    open: Subscriptions open now.
    behind: Subscriptions that have missed the newest snapshot until their client reads its pending output.
    """

    open: int
    behind: int


class Refusals(TypedDict):
    """Refusals because of a limit, since the start.

    connections: Connections refused because of `connections`.
    connectionsPerUser: Connections refused because of `connectionsPerUser`.
    subscriptions: Subscriptions refused because of `subscriptionsPerConnection` or `subscriptionsPerUser`.
    requests: Requests refused because of `requestsInFlightPerUser`, `leasesPerUser` or the limits on open files.
    queuedBytes: Requests, lines and replies refused because of `queuedBytesPerUser`.
    queuedConnections: Connections closed because of `queuedBytesPerUser`.
    lines: Lines longer than `lineBytes`.
    malformed: Lines that were not JSON.
    """

    connections: int
    connectionsPerUser: int
    subscriptions: int
    requests: int
    queuedBytes: int
    queuedConnections: int
    lines: int
    malformed: int


class AgentMetricsSourceRequests(TypedDict):
    """Durations of the requests to sources since the start, without long polls and deliveries of streams.

    boundsMilliseconds: The longest duration in each class but the last, in ascending order.
    counts: Number of requests in each class. The last class has the longer ones.
    totalMilliseconds: Sum of all durations.
    """

    boundsMilliseconds: list[int]
    counts: list[int]
    totalMilliseconds: int


class AgentMetricsMemory(TypedDict):
    """An object of the protocol."""

    residentBytes: int


class AgentMetricsFiles(TypedDict):
    """An object of the protocol.

    open: Open file descriptors of the agent; 0 if unknown.
    maximum: The limit on open file descriptors.
    """

    open: int
    maximum: int


class AgentMetricsDisk(TypedDict):
    """An object of the protocol.

    directory: Purpose of the directory. Later versions may add others.
    bytes: Size of the file system.
    freeBytes: Space that users other than root can use.
    """

    directory: Literal["state", "images"]
    bytes: int
    freeBytes: int


class AgentMetricsNamespaceRefreshes(TypedDict):
    """An object of the protocol."""

    changed: int
    notModified: int
    failed: int


class AgentMetricsNamespace(TypedDict):
    """An object of the protocol.

    namespace: Name of a namespace that the settings declare.
    state: How up to date the configuration of the namespace is.
    revision: Number of a published snapshot. It increases with each snapshot, never decreases, and survives restarts. 0
        if nothing has been published.
    overrides: Number of overrides.
    rejected: Whether the newest content of the source, of a push or of a layer is rejected.
    lastSuccessAt: When the source last sent a usable response; absent without one since the start.
    certificateExpiresAt: When the first certificate of the source's settings expires, as of the last request; absent
        without one.
    """

    namespace: str
    state: Literal["initializing", "fresh", "refreshing", "stale", "failed"]
    revision: int
    overrides: int
    rejected: bool
    lastSuccessAt: NotRequired[str]
    certificateExpiresAt: NotRequired[str]
    refreshes: AgentMetricsNamespaceRefreshes


class AgentMetricsImages(TypedDict):
    """An object of the protocol.

    hits: Requests answered with a cached image.
    misses: Requests that started a download.
    joined: Requests that joined a download in progress.
    staleAnswers: Requests answered with a stale image.
    downloaded: Downloads that delivered an image.
    revalidated: Downloads in which the origin confirmed the cached image.
    failed: Failed downloads.
    bytes: Disk space of the image files and their directories now.
    maximumBytes: The limit on this space.
    entries: Images cached now.
    certificateExpiresAt: When the first certificate of `images.origins` in the settings expires, as of the last request
        to each origin; absent without one.
    """

    hits: int
    misses: int
    joined: int
    staleAnswers: int
    downloaded: int
    revalidated: int
    failed: int
    bytes: int
    maximumBytes: int
    entries: int
    certificateExpiresAt: NotRequired[str]


class AgentMetricsResult(TypedDict):
    """The result of agent.metrics.

    version: Version of the agent.
    startedAt: RFC 3339 time in UTC with milliseconds.
    connections: Connections open now.
    requests: Requests since the start, including notifications and requests in batches.
    publications: Snapshots published since the start, also in namespaces that were removed from the settings.
    refused: Refusals because of a limit, since the start.
    sourceRequests: Durations of the requests to sources since the start, without long polls and deliveries of streams.
    disks: The file systems of the directories for state and images. One that cannot be read is left out.
    namespaces: All namespaces, in ascending order of name.
    images: The image cache; null if it is disabled or cannot be used.
    """

    version: str
    startedAt: str
    connections: int
    requests: int
    subscriptions: AgentMetricsSubscriptions
    publications: int
    refused: Refusals
    sourceRequests: AgentMetricsSourceRequests
    memory: AgentMetricsMemory
    files: AgentMetricsFiles
    disks: list[AgentMetricsDisk]
    namespaces: list[AgentMetricsNamespace]
    images: AgentMetricsImages | None


class AgentPingResult(TypedDict):
    """The result of agent.ping."""

    pong: Literal[True]


class AgentStatsConnections(TypedDict):
    """An object of the protocol.

    accepted: Connections accepted since the start.
    refused: Connections refused because of a limit.
    stalled: Connections closed because the client accepted no byte of pending output for too long.
    """

    open: int
    accepted: int
    refused: int
    stalled: int


class AgentStatsRequests(TypedDict):
    """An object of the protocol.

    total: Includes notifications and requests in batches.
    errors: Requests answered with an error.
    inFlight: Requests pending now, including this one.
    """

    total: int
    errors: int
    inFlight: int


class AgentStatsSubscriptions(TypedDict):
    """An object of the protocol.

    events: Events queued for sending.
    skipped: Sum of `skipped` in all events that were queued for sending.
    """

    open: int
    events: int
    skipped: int


class AgentStatsBytes(TypedDict):
    """An object of the protocol."""

    received: int
    sent: int


class AgentStatsMemory(TypedDict):
    """An object of the protocol."""

    residentBytes: int


class AgentStatsNamespaceRefreshes(TypedDict):
    """An object of the protocol."""

    attempted: int
    changed: int
    notModified: int
    failed: int


class AgentStatsNamespace(TypedDict):
    """An object of the protocol.

    revision: Number of a published snapshot. It increases with each snapshot, never decreases, and survives restarts. 0
        if nothing has been published.
    publishes: Snapshots published since the start.
    """

    revision: int
    publishes: int
    refreshes: AgentStatsNamespaceRefreshes


class AgentStatsImagesLimits(TypedDict):
    """An object of the protocol."""

    bytes: int
    images: int


class AgentStatsImages(TypedDict):
    """An object of the protocol.

    hits: Requests answered with a cached image.
    misses: Requests that started a download.
    joined: Requests that joined a download in progress.
    revalidations: Validations in which the origin confirmed the cached image.
    staleAnswers: Requests answered with a stale image.
    failures: Failed downloads.
    evictions: Images evicted to make room or because of their age.
    downloadedBytes: Bytes received from origins.
    entries: Images cached now.
    bytes: Disk space of the image files and their directories now. Identical files count once.
    indexBytes: Disk space of the index now. It is not limited.
    reservedBytes: Bytes reserved now for images being downloaded or stored, and for directories that they may add.
    leasedBytes: Bytes of files that only a lease keeps now.
    activeDownloads: Downloads running now.
    queued: Downloads queued now.
    certificateExpiresAt: When the first certificate of `images.origins` in the settings expires, as of the last request
        to each origin; absent without one.
    certificateFile: The file of that certificate; absent without one.
    """

    hits: int
    misses: int
    joined: int
    revalidations: int
    staleAnswers: int
    failures: int
    evictions: int
    downloadedBytes: int
    entries: int
    bytes: int
    indexBytes: int
    reservedBytes: int
    leasedBytes: int
    activeDownloads: int
    queued: int
    certificateExpiresAt: NotRequired[str]
    certificateFile: NotRequired[str]
    limits: AgentStatsImagesLimits


class AgentStatsResult(TypedDict):
    """The result of agent.stats.

    refused: Refusals because of a limit, since the start.
    namespaces: The counters of each namespace that the caller may read, by name; of all namespaces if it has the right
        `monitor`.
    images: The image cache; null if it is disabled or cannot be used.
    """

    uptimeMilliseconds: int
    connections: AgentStatsConnections
    requests: AgentStatsRequests
    subscriptions: AgentStatsSubscriptions
    bytes: AgentStatsBytes
    refused: Refusals
    memory: AgentStatsMemory
    namespaces: dict[str, AgentStatsNamespace]
    images: AgentStatsImages | None


class ConfigAcknowledgeParams(TypedDict):
    """The parameters of config.acknowledge.

    revision: Revision of a published snapshot.
    accepted: Whether the client runs the snapshot.
    reason: Why the client rejects the snapshot, for people; at most 1,024 bytes.
    namespace: Default: "default".
    epoch: Epoch of the revision. Default: the current one.
    """

    revision: int
    accepted: bool
    reason: NotRequired[str]
    namespace: NotRequired[str]
    epoch: NotRequired[str]


class ConfigAcknowledgeResult(TypedDict):
    """The result of config.acknowledge.

    revision: Number of a published snapshot. It increases with each snapshot, never decreases, and survives restarts. 0
        if nothing has been published.
    """

    revision: int


class AppliedChange(TypedDict):
    """One of the changes of config.apply.

    op: As `config.set`; as `config.unset`; or only a comparison.
    path: The whole document only with test.
    value: Only with set, which requires it.
    ttlMilliseconds: Time until the override expires; only with set. At most ten years. Default: never.
    ifValue: Change nothing and fail with conflict unless the resolved value at the path equals this one. Default: any.
    ifAbsent: Change nothing and fail with conflict if there is a value at the path. Excludes `ifValue`. Default: false.
    """

    op: Literal["set", "unset", "test"]
    path: str | list[str]
    value: NotRequired[Any]
    ttlMilliseconds: NotRequired[int]
    ifValue: NotRequired[Any]
    ifAbsent: NotRequired[bool]


class ConfigApplyParams(TypedDict):
    """The parameters of config.apply.

    changes: The changes.
    namespace: Default: "default".
    ifRevision: Change nothing and fail with conflict unless this is the current revision. Default: any.
    epoch: The epoch of `ifRevision`; another epoch is a conflict as well. Default: any.
    reason: Why the change is made, for the history and the log. At most 1,024 characters. Default: none.
    dryRun: Report the differences that the change would make, and change nothing. Default: false.
    """

    changes: list[AppliedChange]
    namespace: NotRequired[str]
    ifRevision: NotRequired[int]
    epoch: NotRequired[str]
    reason: NotRequired[str]
    dryRun: NotRequired[bool]


class Difference(TypedDict):
    """A path at which two documents differ.

    path: Full path in the document.
    old: The old value; absent if it did not exist.
    new: The new value; absent if it does not exist.
    """

    path: list[str]
    kind: Literal["added", "removed", "changed"]
    old: NotRequired[Any]
    new: NotRequired[Any]


class SchemaError(TypedDict):
    """An object of the protocol.

    path: Path of the value that violates the schema.
    schemaPath: Location of the violated keyword: a JSON Pointer after `#`, and before it the URI of the document if
        that is not the schema itself.
    keyword: The violated keyword of JSON Schema.
    message: What was expected and what was found, for people.
    layer: The highest layer with a value at the path; absent if no layer has one.
    location: File, directory or URL that the value comes from; absent if the value was set or pushed, or if unknown.
    line: Line of the value in the file `location`, from 1; absent if unknown.
    """

    path: list[str]
    schemaPath: str
    keyword: str
    message: str
    layer: NotRequired[Literal["defaults", "host", "remote", "experiment", "override"]]
    location: NotRequired[str]
    line: NotRequired[int]


class Change(TypedDict):
    """Result of a write.

    revision: Revision of the snapshot that contains the change.
    epoch: Random ID of the state directory's lifetime. Revisions of different epochs cannot be compared.
    changed: Whether a new snapshot was published; false if the resolved document did not change. After a dry run,
        whether one would be.
    dryRun: Nothing was changed, because it was a dry run; absent otherwise.
    changes: The differences that the change would make in the document; absent unless it was a dry run.
    masked: Values in `changes` are replaced by "<masked>", because they are secret or the peer may not read them;
        absent otherwise.
    errors: Violations of the schema that the dry run found, the most specific first; absent if there are none. Empty if
        the peer lacks the right `read`.
    """

    revision: int
    epoch: str
    changed: bool
    dryRun: NotRequired[Literal[True]]
    changes: NotRequired[list[Difference]]
    masked: NotRequired[Literal[True]]
    errors: NotRequired[list[SchemaError]]


class ConfigBackupParams(TypedDict):
    """The parameters of config.backup.

    revision: A revision that config.history lists. Default: the current one.
    namespace: Default: "default".
    """

    revision: NotRequired[int]
    namespace: NotRequired[str]


class ConfigBackupResult(TypedDict):
    """The result of config.backup.

    namespace: Name of a namespace that the settings declare.
    epoch: Random ID of the state directory's lifetime. Revisions of different epochs cannot be compared.
    revision: Revision of the returned snapshot; 0 if nothing has been published.
    generation: Content of the file generations/<revision>.json; absent if nothing has been published.
    pinned: The snapshot is pinned; absent otherwise.
    revisions: The revisions that config.history lists, newest first.
    """

    namespace: str
    epoch: str
    revision: int
    generation: NotRequired[str]
    pinned: NotRequired[Literal[True]]
    revisions: list[int]


ConfigDiffParams = TypedDict(
    "ConfigDiffParams",
    {
        "from": int,
        "to": NotRequired[int],
        "namespace": NotRequired[str],
        "path": NotRequired[str | list[str]],
    },
)


ConfigDiffResult = TypedDict(
    "ConfigDiffResult",
    {
        "from": int,
        "to": int,
        "epoch": str,
        "patch": NotRequired[Any],
        "changes": list[Difference],
        "masked": NotRequired[Literal[True]],
    },
)


class ConfigExplainParams(TypedDict):
    """The parameters of config.explain.

    path: Default: the whole document.
    namespace: Default: "default".
    """

    path: NotRequired[str | list[str]]
    namespace: NotRequired[str]


class ConfigExplainLock(TypedDict):
    """The lock that applies to the path; absent if no lock does.

    path: The locked path: the requested path, or one above it.
    file: The file that sets the locked value, or its directory if the file is not known; absent if no file sets it.
    line: The line in that file, counted from 1.
    settings: The settings file that declares the lock; null if the settings did not come from a file.
    """

    path: str
    file: NotRequired[str]
    line: NotRequired[int]
    settings: str | None


class ConfigExplainDocumentation(TypedDict):
    """`title`, `description` and `default` of the value in the schema of the namespace; absent if the schema has none
    of them.

    default: Any JSON value. The text of numbers is preserved.
    """

    title: NotRequired[str]
    description: NotRequired[str]
    default: NotRequired[Any]


class Peer(TypedDict):
    """A local process that made a change, as it was when it connected.

    pid: Process ID; 0 if the kernel does not report it.
    uid: Effective user ID.
    command: Short name of the process; "" if unknown.
    loginUid: User ID of the login session that the process belongs to, which sudo does not change (loginuid in
        proc(5)); absent if unknown.
    """

    pid: int
    uid: int
    command: str
    loginUid: NotRequired[int]


class ValueSource(TypedDict):
    """Where the layer's value comes from; absent if the layer has no effect at the path.

    location: A URL, file or directory.
    file: The file that defines the value.
    line: The line in that file, counted from 1.
    key: The key in a key-value store. If several keys form the value, it is their common prefix, which ends with "/".
    version: Upstream version of the document.
    experiment: Name of the overlay: the arm that this host is in.
    peer: The client that set or pushed the value.
    reason: Why it did; absent if it gave no reason.
    expiresAt: When the override expires; absent if it does not expire.
    """

    kind: Literal["file", "http", "sse", "etcd", "push", "set", "settings"]
    location: NotRequired[str]
    file: NotRequired[str]
    line: NotRequired[int]
    key: NotRequired[str]
    version: NotRequired[str]
    experiment: NotRequired[str]
    peer: NotRequired[Peer]
    reason: NotRequired[str]
    expiresAt: NotRequired[str]


class ExplainedLayerSince(TypedDict):
    """When the layer's effect at the path began. Absent if the layer has no effect at the path, or if the time is
    unknown.

    revision: The revision since which the layer has had its present effect at the path: its value, or hiding the values
        of lower layers.
    at: When the effect began: when that snapshot was published, or when the layer changed later without a new snapshot.
    orEarlier: The effect may be older, because earlier snapshots are no longer known; absent otherwise.
    """

    revision: int
    at: str
    orEarlier: NotRequired[Literal[True]]


class ExplainedLayerHeld(TypedDict):
    """A rollback shows an earlier version of the layer instead of the live one; absent otherwise.

    revision: The revision that was rolled back to.
    """

    revision: int


class ExplainedLayer(TypedDict):
    """An object of the protocol.

    layer: Name of a layer. The names are listed from lowest to highest precedence.
    exists: Whether the layer has a value at the path.
    value: The layer's value at the path; absent if the layer has none.
    masked: Secrets are masked in the value; absent otherwise.
    hidden: The layer has no value at the path, but removes the values of lower layers; absent otherwise.
    source: Where the layer's value comes from; absent if the layer has no effect at the path.
    since: When the layer's effect at the path began. Absent if the layer has no effect at the path, or if the time is
        unknown.
    held: A rollback shows an earlier version of the layer instead of the live one; absent otherwise.
    """

    layer: Literal["defaults", "host", "remote", "experiment", "override"]
    exists: bool
    value: NotRequired[Any]
    masked: NotRequired[Literal[True]]
    hidden: NotRequired[Literal[True]]
    source: NotRequired[ValueSource]
    since: NotRequired[ExplainedLayerSince]
    held: NotRequired[ExplainedLayerHeld]


class ConfigExplainResult(TypedDict):
    """The result of config.explain.

    path: The path, dotted if possible, otherwise as a JSON Pointer.
    namespace: Name of a namespace that the settings declare.
    revision: Revision of the snapshot that is explained.
    epoch: Random ID of the state directory's lifetime. Revisions of different epochs cannot be compared.
    exists: Whether that snapshot has a value at the path.
    value: The value in that snapshot; absent if the path has no value in it.
    winner: The highest layer with an effect at the path that no lock suppresses; null if no layer has one.
    masked: Secrets are masked in the value; absent otherwise.
    lock: The lock that applies to the path; absent if no lock does.
    documentation: `title`, `description` and `default` of the value in the schema of the namespace; absent if the
        schema has none of them.
    layers: All layers, lowest precedence first.
    """

    path: str
    namespace: str
    revision: int
    epoch: str
    exists: bool
    value: NotRequired[Any]
    winner: Literal["defaults", "host", "remote", "experiment", "override"] | None
    masked: NotRequired[Literal[True]]
    lock: NotRequired[ConfigExplainLock]
    documentation: NotRequired[ConfigExplainDocumentation]
    layers: list[ExplainedLayer]


class ConfigGetParams(TypedDict):
    """The parameters of config.get.

    path: Default: the whole document.
    namespace: Default: "default".
    maximumAgeSeconds: Maximum time since the source confirmed its document. If it is exceeded, the source is polled
        first. Default: no limit.
    staleIfErrorSeconds: If the poll fails, the maximum time since the source confirmed its document for which the value
        is returned nevertheless. Default: the error is returned.
    """

    path: NotRequired[str | list[str]]
    namespace: NotRequired[str]
    maximumAgeSeconds: NotRequired[float]
    staleIfErrorSeconds: NotRequired[float]


class ConfigGetResult(TypedDict):
    """The result of config.get.

    value: Any JSON value. The text of numbers is preserved.
    revision: Number of a published snapshot. It increases with each snapshot, never decreases, and survives restarts. 0
        if nothing has been published.
    epoch: Random ID of the state directory's lifetime. Revisions of different epochs cannot be compared.
    state: How up to date the configuration of the namespace is.
    """

    value: Any
    revision: int
    epoch: str
    state: Literal["initializing", "fresh", "refreshing", "stale", "failed"]


class ConfigHistoryParams(TypedDict):
    """The parameters of config.history.

    namespace: Default: "default".
    limit: Maximum number of snapshots. Default: all.
    """

    namespace: NotRequired[str]
    limit: NotRequired[int]


class Cause(TypedDict):
    """One of the changes that caused a snapshot to be published.

    path: Path of a set, unset or increment, or the path that all changes of an apply share, dotted or as a JSON
        Pointer; absent if it is longer than 1,024 bytes, and for other kinds.
    revision: The revision that was rolled back to.
    peer: The client that requested the change; absent if no client did.
    origin: URL or path of the source that delivered the document.
    reason: Why the client requested the change; absent if it gave no reason.
    """

    kind: Literal[
        "start",
        "set",
        "unset",
        "apply",
        "increment",
        "expiry",
        "host",
        "defaults",
        "settings",
        "refresh",
        "push",
        "rollback",
        "release",
    ]
    path: NotRequired[str]
    revision: NotRequired[int]
    peer: NotRequired[Peer]
    origin: NotRequired[str]
    reason: NotRequired[str]


class Generation(TypedDict):
    """One snapshot of the history.

    revision: Number of a published snapshot. It increases with each snapshot, never decreases, and survives restarts. 0
        if nothing has been published.
    digest: SHA-256 of the document's compact text.
    bytes: Length of the document's compact text.
    publishedAt: RFC 3339 time in UTC with milliseconds.
    pinned: The snapshot is kept until it is unpinned; absent if it is not pinned.
    upstreamVersion: Upstream version of the remote document in the snapshot; absent if it has none.
    causes: The changes that caused the snapshot to be published, in order; empty if an older agent published it.
    """

    revision: int
    digest: str
    bytes: int
    publishedAt: str
    current: bool
    pinned: NotRequired[Literal[True]]
    upstreamVersion: NotRequired[str]
    causes: list[Cause]


class ConfigHistoryResult(TypedDict):
    """The result of config.history.

    namespace: Name of a namespace that the settings declare.
    epoch: Random ID of the state directory's lifetime. Revisions of different epochs cannot be compared.
    generations: Newest first; empty if nothing has been published.
    """

    namespace: str
    epoch: str
    generations: list[Generation]


class ConfigIncrementParams(TypedDict):
    """The parameters of config.increment.

    path: Not the whole document.
    by: The number to add. Default: 1.
    namespace: Default: "default".
    minimum: Change nothing and fail with conflict if the sum would be less. Default: none.
    maximum: Change nothing and fail with conflict if the sum would be greater. Default: none.
    reason: Why the change is made, for the history and the log. At most 1,024 characters. Default: none.
    """

    path: str | list[str]
    by: NotRequired[int]
    namespace: NotRequired[str]
    minimum: NotRequired[int]
    maximum: NotRequired[int]
    reason: NotRequired[str]


class ConfigIncrementResult(TypedDict):
    """The result of config.increment.

    value: The sum.
    revision: Revision of the snapshot that contains the change.
    epoch: Random ID of the state directory's lifetime. Revisions of different epochs cannot be compared.
    changed: Whether a new snapshot was published; false if the resolved document did not change.
    """

    value: int
    revision: int
    epoch: str
    changed: bool


class ConfigOpenParams(TypedDict):
    """The parameters of config.open.

    namespace: Default: "default".
    """

    namespace: NotRequired[str]


class ConfigOpenResult(TypedDict):
    """The result of config.open.

    namespace: Name of a namespace that the settings declare.
    revision: Number of a published snapshot. It increases with each snapshot, never decreases, and survives restarts. 0
        if nothing has been published.
    epoch: Random ID of the state directory's lifetime. Revisions of different epochs cannot be compared.
    state: How up to date the configuration of the namespace is.
    bytes: Length of the file.
    descriptor: An open descriptor comes with the reply.
    secretPaths: The patterns of secrets in the settings.
    """

    namespace: str
    revision: int
    epoch: str
    state: Literal["initializing", "fresh", "refreshing", "stale", "failed"]
    bytes: int
    descriptor: Literal[True]
    secretPaths: list[str]


class ConfigOverridesParams(TypedDict):
    """The parameters of config.overrides.

    path: Only the overrides at this path and below it. Default: the whole document.
    namespace: Default: "default".
    after: The `next` of the previous page. Default: the first page.
    limit: Maximum number of overrides. Default: 100.
    """

    path: NotRequired[str | list[str]]
    namespace: NotRequired[str]
    after: NotRequired[str]
    limit: NotRequired[int]


class ListedOverride(TypedDict):
    """An object of the protocol.

    path: The path, dotted if possible, otherwise as a JSON Pointer.
    value: The value that was set; null removes the values of lower layers.
    masked: Secrets are masked in the value; absent otherwise.
    setAt: When the value was set.
    expiresAt: When the override expires; absent if it does not expire.
    peer: The client that set the value; absent if it is unknown.
    reason: Why it did; absent if it gave no reason.
    """

    path: str
    value: Any
    masked: NotRequired[Literal[True]]
    setAt: str
    expiresAt: NotRequired[str]
    peer: NotRequired[Peer]
    reason: NotRequired[str]


class ConfigOverridesResult(TypedDict):
    """The result of config.overrides.

    namespace: Name of a namespace that the settings declare.
    revision: Revision of the snapshot in which the overrides are in effect.
    epoch: Random ID of the state directory's lifetime. Revisions of different epochs cannot be compared.
    overrides: A page with large values is shorter than `limit`.
    next: Value of `after` for the next page; null on the last page.
    """

    namespace: str
    revision: int
    epoch: str
    overrides: list[ListedOverride]
    next: str | None


class ConfigPinParams(TypedDict):
    """The parameters of config.pin.

    revision: A revision that config.history lists.
    pinned: False to unpin. Default: true.
    namespace: Default: "default".
    """

    revision: int
    pinned: NotRequired[bool]
    namespace: NotRequired[str]


class ConfigPinResult(TypedDict):
    """The result of config.pin.

    revision: Number of a published snapshot. It increases with each snapshot, never decreases, and survives restarts. 0
        if nothing has been published.
    epoch: Random ID of the state directory's lifetime. Revisions of different epochs cannot be compared.
    changed: Whether the request changed anything.
    """

    revision: int
    epoch: str
    changed: bool


class ConfigPushParams(TypedDict):
    """The parameters of config.push.

    document: The whole remote layer.
    namespace: Default: "default".
    version: The source's version of the document, at most 1,024 bytes. Empty: the document has no version. Default:
        none.
    force: Skip the checks of the version and of removed members, and end the hold of a rollback. Default: false.
    ifRevision: Change nothing and fail with conflict unless this is the current revision. Default: any.
    epoch: The epoch of `ifRevision`; another epoch is a conflict as well. Default: any.
    reason: Why the change is made, for the history and the log. At most 1,024 characters. Default: none.
    dryRun: Report the differences that the change would make, and change nothing. Default: false.
    """

    document: dict[str, Any]
    namespace: NotRequired[str]
    version: NotRequired[str]
    force: NotRequired[bool]
    ifRevision: NotRequired[int]
    epoch: NotRequired[str]
    reason: NotRequired[str]
    dryRun: NotRequired[bool]


class ConfigRefreshParams(TypedDict):
    """The parameters of config.refresh.

    namespace: Default: "default".
    force: Fetch the document unconditionally, skip the checks of its version and of removed members, and end the hold
        of a rollback. Needs the right `push`. Default: false.
    """

    namespace: NotRequired[str]
    force: NotRequired[bool]


class ConfigRefreshResult(TypedDict):
    """The result of config.refresh.

    revision: Number of a published snapshot. It increases with each snapshot, never decreases, and survives restarts. 0
        if nothing has been published.
    epoch: Random ID of the state directory's lifetime. Revisions of different epochs cannot be compared.
    changed: Whether a new snapshot was published.
    notModified: Whether the source reported that its document has not changed.
    state: How up to date the configuration of the namespace is.
    upstreamVersion: Version of the remote document; absent if it has none.
    """

    revision: int
    epoch: str
    changed: bool
    notModified: bool
    state: Literal["initializing", "fresh", "refreshing", "stale", "failed"]
    upstreamVersion: NotRequired[str]


class ConfigRollbackParams(TypedDict):
    """The parameters of config.rollback.

    revision: The revision to roll back to.
    namespace: Default: "default".
    release: Release the hold, so that the live documents are shown again. Default: false. Exactly one of `revision` and
        `release` is given.
    hold: Which document of the source ends the hold; only with `revision`. Default: untilNewer if only the remote layer
        is held and its versions can be ordered, otherwise untilReleased.
    ifRevision: Change nothing and fail with conflict unless this is the current revision. Default: any.
    epoch: The epoch of `ifRevision`; another epoch is a conflict as well. Default: any.
    reason: Why the change is made, for the history and the log. At most 1,024 characters. Default: none.
    dryRun: Report the differences that the change would make, and change nothing. Default: false.
    """

    revision: NotRequired[int]
    namespace: NotRequired[str]
    release: NotRequired[bool]
    hold: NotRequired[Literal["untilNewer", "untilReleased"]]
    ifRevision: NotRequired[int]
    epoch: NotRequired[str]
    reason: NotRequired[str]
    dryRun: NotRequired[bool]


class ConfigRollbackResult(TypedDict):
    """The result of config.rollback.

    revision: Revision of the snapshot that contains the change.
    epoch: Random ID of the state directory's lifetime. Revisions of different epochs cannot be compared.
    changed: Whether a new snapshot was published.
    held: Whether documents of an earlier revision are shown instead of the live ones.
    hold: Which document of the source ends the hold; absent if nothing is held.
    released: A release ended a hold, even if that published nothing; absent otherwise.
    dryRun: Nothing was changed, because it was a dry run; absent otherwise.
    changes: The differences that the change would make in the document; absent unless it was a dry run.
    masked: Values in `changes` are replaced by "<masked>", because they are secret or the peer may not read them;
        absent otherwise.
    errors: Violations of the schema that the dry run found, the most specific first; absent if there are none. Empty if
        the peer lacks the right `read`.
    """

    revision: int
    epoch: str
    changed: bool
    held: bool
    hold: NotRequired[Literal["untilNewer", "untilReleased"]]
    released: NotRequired[Literal[True]]
    dryRun: NotRequired[Literal[True]]
    changes: NotRequired[list[Difference]]
    masked: NotRequired[Literal[True]]
    errors: NotRequired[list[SchemaError]]


class ConfigSchemaParams(TypedDict):
    """The parameters of config.schema.

    namespace: Default: "default".
    """

    namespace: NotRequired[str]


class ConfigSchemaResult(TypedDict):
    """The result of config.schema.

    namespace: Name of a namespace that the settings declare.
    schema: The schema.
    digest: SHA-256 of the compact text of the schema.
    path: The file from which the schema was read. It is not that of the settings if the latter cannot be used.
    enforce: Whether changes that violate the schema are rejected, or published and reported.
    assertFormats: Whether values must have the `format` that the schema names; absent if the dialect of the schema
        decides.
    """

    namespace: str
    schema: Any
    digest: str
    path: str
    enforce: Literal["reject", "warn"]
    assertFormats: NotRequired[bool]


class ConfigSetParams(TypedDict):
    """The parameters of config.set.

    path: The whole document requires replaceAll, and its value must be an object.
    value: Any JSON value. The text of numbers is preserved.
    namespace: Default: "default".
    ttlMilliseconds: Time until the override expires. At most ten years. Default: never.
    replaceAll: Whether to replace all overrides. Must be true for the whole document, and for no other path.
    ifRevision: Change nothing and fail with conflict unless this is the current revision. Default: any.
    epoch: The epoch of `ifRevision`; another epoch is a conflict as well. Default: any.
    ifValue: Change nothing and fail with conflict unless the resolved value at the path equals this one. Default: any.
    ifAbsent: Change nothing and fail with conflict if there is a value at the path. Excludes `ifValue`. Default: false.
    reason: Why the change is made, for the history and the log. At most 1,024 characters. Default: none.
    dryRun: Report the differences that the change would make, and change nothing. Default: false.
    """

    path: str | list[str]
    value: Any
    namespace: NotRequired[str]
    ttlMilliseconds: NotRequired[int]
    replaceAll: NotRequired[bool]
    ifRevision: NotRequired[int]
    epoch: NotRequired[str]
    ifValue: NotRequired[Any]
    ifAbsent: NotRequired[bool]
    reason: NotRequired[str]
    dryRun: NotRequired[bool]


class ConfigSetResult(TypedDict):
    """The result of config.set.

    revision: Revision of the snapshot that contains the change.
    epoch: Random ID of the state directory's lifetime. Revisions of different epochs cannot be compared.
    changed: Whether a new snapshot was published; false if the resolved document did not change. After a dry run,
        whether one would be.
    expiresAt: When the override expires; absent if it does not expire.
    lifetimeChanged: The request replaced an override at the same path and thereby changed whether or when the override
        expires; absent otherwise.
    dryRun: Nothing was changed, because it was a dry run; absent otherwise.
    changes: The differences that the change would make in the document; absent unless it was a dry run.
    masked: Values in `changes` are replaced by "<masked>", because they are secret or the peer may not read them;
        absent otherwise.
    errors: Violations of the schema that the dry run found, the most specific first; absent if there are none. Empty if
        the peer lacks the right `read`.
    """

    revision: int
    epoch: str
    changed: bool
    expiresAt: NotRequired[str]
    lifetimeChanged: NotRequired[bool]
    dryRun: NotRequired[Literal[True]]
    changes: NotRequired[list[Difference]]
    masked: NotRequired[Literal[True]]
    errors: NotRequired[list[SchemaError]]


class ConfigStatusParams(TypedDict):
    """The parameters of config.status.

    namespace: Default: all that the caller may read.
    """

    namespace: NotRequired[str]


class Failure(TypedDict):
    """An object of the protocol.

    name: Name of an error in the error table.
    message: Description of the error, for people.
    at: RFC 3339 time in UTC with milliseconds.
    """

    name: str
    message: str
    at: str


class Rejection(TypedDict):
    """An object of the protocol.

    version: Upstream version of the rejected document; null if it has none.
    reason: Why the document was rejected, for people.
    canForce: Whether a refresh or push with force skips the check that rejected it.
    at: RFC 3339 time in UTC with milliseconds.
    """

    version: str | None
    reason: str
    canForce: bool
    at: str


class Quarantine(TypedDict):
    """An object of the protocol.

    version: Upstream version of the document; null if it has none.
    at: RFC 3339 time in UTC with milliseconds.
    members: Number of members of the current remote document. Members of nested objects count individually, and the
        version of the document does not count.
    removed: Number of these members that the document would remove.
    """

    version: str | None
    at: str
    members: int
    removed: int


class SchemaState(TypedDict):
    """An object of the protocol.

    path: The schema file of the settings.
    digest: SHA-256 of the compact text of the schema in force; null if none is in force.
    problem: Why the schema file cannot be used; null if it can.
    errors: Violations by the current snapshot; empty if it satisfies the schema, or if none is in force.
    """

    path: str
    enforce: Literal["reject", "warn"]
    digest: str | None
    problem: str | None
    errors: list[SchemaError]


class SchemaRejection(TypedDict):
    """An object of the protocol.

    layer: The layer whose new content was rejected; null for the locks and experiments of new settings.
    version: Upstream version of the document; null if it has none.
    at: RFC 3339 time in UTC with milliseconds.
    errors: The violations, the most specific first.
    """

    layer: str | None
    version: str | None
    at: str
    errors: list[SchemaError]


class Hold(TypedDict):
    """An object of the protocol.

    revision: The revision that was rolled back to.
    rejectedVersion: Upstream version of the remote document that the rollback rejected; null if it had none.
    since: RFC 3339 time in UTC with milliseconds.
    layers: Names of the held layers, lowest precedence first.
    rule: Which document of the source ends the hold: one that is newer than the rejected one, or none.
    reason: Why the hold has this rule, for people.
    peer: The client that requested the rollback; null if that was not recorded.
    """

    revision: int
    rejectedVersion: str | None
    since: str
    layers: NotRequired[list[str]]
    rule: NotRequired[Literal["untilNewer", "untilReleased"]]
    reason: NotRequired[str]
    peer: NotRequired[Peer | None]


class Upstream(TypedDict):
    """An object of the protocol.

    location: URL or path. A URL is shown without user information.
    version: Upstream version of the remote document; null if it has none.
    etag: Entity tag of the remote document; null if it has none.
    lastAttemptAt: When the agent last sent a request to the source.
    lastSuccessAt: When the source last sent a usable response. An error or a rejected document does not count.
    watchError: Why the connection over which the source reports changes failed last, for people; absent if it works or
        the source needs none.
    certificateExpiresAt: When the first certificate that the settings of the source name expires, as of the last
        request: of the client certificates the first one, of the authorities the last one. Absent without such
        certificates.
    certificateFile: The file of that certificate; absent without one.
    """

    kind: Literal["http", "sse", "etcd", "file"]
    location: str
    version: str | None
    etag: str | None
    lastAttemptAt: str | None
    lastSuccessAt: str | None
    nextAttemptAt: str | None
    consecutiveFailures: int
    watchError: NotRequired[str]
    certificateExpiresAt: NotRequired[str]
    certificateFile: NotRequired[str]


class Layer(TypedDict):
    """An object of the protocol.

    name: Name of a layer. The names are listed from lowest to highest precedence.
    present: Whether the layer has any content.
    bytes: Length of the compact text of the layer; 0 if the layer has no content.
    origin: Where the layer comes from: a directory, a URL, a path, "push" or "config.set"; for experiment the names of
        the overlays that apply to this host; "" if nothing is configured.
    problem: The problem with the layer, for people; null if it has none.
    """

    name: Literal["defaults", "host", "remote", "experiment", "override"]
    present: bool
    bytes: int
    origin: str
    updatedAt: str | None
    problem: str | None


class AcknowledgementsRejectedItem(TypedDict):
    """An object of the protocol.

    client: ID of the connection, as in agent.clients.
    revision: Number of a published snapshot. It increases with each snapshot, never decreases, and survives restarts. 0
        if nothing has been published.
    at: RFC 3339 time in UTC with milliseconds.
    """

    client: int
    pid: int
    uid: int
    command: str
    revision: int
    reason: str | None
    at: str


class Acknowledgements(TypedDict):
    """An object of the protocol.

    accepted: Number of clients that run each revision, for the 16 newest of these revisions.
    rejections: Number of clients whose last acknowledgement was a rejection.
    rejected: The clients whose last acknowledgement was a rejection, newest first, at most 16.
    """

    accepted: dict[str, int]
    rejections: int
    rejected: list[AcknowledgementsRejectedItem]


class Copy(TypedDict):
    """An object of the protocol.

    path: Path of the file.
    problem: Why the file is missing or outdated, for people; null if the file is up to date.
    """

    path: str
    problem: str | None


class NamespaceStatus(TypedDict):
    """The status of one namespace.

    namespace: Name of a namespace that the settings declare.
    state: How up to date the configuration of the namespace is.
    since: When the namespace entered this state.
    revision: Number of a published snapshot. It increases with each snapshot, never decreases, and survives restarts. 0
        if nothing has been published.
    epoch: Random ID of the state directory's lifetime. Revisions of different epochs cannot be compared.
    digest: SHA-256 of the document's compact text; null at revision 0.
    bytes: Length of the document's compact text; 0 at revision 0.
    publishedAt: When the current snapshot was published; null at revision 0.
    ageMilliseconds: Time since the last usable response of the source; null without a source, and before its first
        usable response since the agent started.
    lastError: The last failure of a refresh or of a write to disk; null once both succeed again.
    writeError: Why the state of the namespace cannot be written to disk; null once it can.
    rejected: The last document that was rejected; null once another one is accepted.
    quarantine: The last document that was rejected because it would remove too many members; null once another one is
        accepted.
    schema: The schema of the namespace; null if the settings name none.
    schemaRejection: The last change that the schema rejected, if no client requested the change; null once it is
        accepted or replaced.
    hold: The hold of a rollback; null if no layer is held.
    upstream: The remote source; null if the settings declare none.
    layers: All layers, lowest precedence first.
    acknowledgements: The acknowledgements of the connected clients.
    copy: The plain copy of the snapshot; null if the settings disable copies or the socket is abstract.
    """

    namespace: str
    state: Literal["initializing", "fresh", "refreshing", "stale", "failed"]
    since: str
    revision: int
    epoch: str
    digest: str | None
    bytes: int
    publishedAt: str | None
    ageMilliseconds: int | None
    durability: Literal["full", "relaxed"]
    lastError: Failure | None
    writeError: NotRequired[Failure | None]
    rejected: Rejection | None
    quarantine: Quarantine | None
    schema: NotRequired[SchemaState | None]
    schemaRejection: NotRequired[SchemaRejection | None]
    hold: Hold | None
    upstream: Upstream | None
    layers: list[Layer]
    acknowledgements: Acknowledgements
    copy: Copy | None


class ConfigStatusResult(TypedDict):
    """The result of config.status."""

    namespaces: list[NamespaceStatus]


class ConfigSubscribeParams(TypedDict):
    """The parameters of config.subscribe.

    path: Default: the whole document.
    namespace: Default: "default".
    mode: Whole values, merge patches if they can express the change, or revisions only. Default: "snapshot".
    since: Revision that the client already has.
    epoch: Epoch of `since`. Default: the current one.
    """

    path: NotRequired[str | list[str]]
    namespace: NotRequired[str]
    mode: NotRequired[Literal["snapshot", "patch", "revision"]]
    since: NotRequired[int]
    epoch: NotRequired[str]


class ConfigSubscribeResult(TypedDict):
    """The result of config.subscribe.

    subscription: Number of a subscription, assigned by the agent and unique on its connection.
    revision: Number of a published snapshot. It increases with each snapshot, never decreases, and survives restarts. 0
        if nothing has been published.
    epoch: Random ID of the state directory's lifetime. Revisions of different epochs cannot be compared.
    state: How up to date the configuration of the namespace is.
    """

    subscription: int
    revision: int
    epoch: str
    state: Literal["initializing", "fresh", "refreshing", "stale", "failed"]


class ConfigUnsetParams(TypedDict):
    """The parameters of config.unset.

    path: The whole document requires `all`.
    namespace: Default: "default".
    all: Whether to remove all overrides. Must be true for the whole document, and for no other path.
    ifRevision: Change nothing and fail with conflict unless this is the current revision. Default: any.
    epoch: The epoch of `ifRevision`; another epoch is a conflict as well. Default: any.
    ifValue: Change nothing and fail with conflict unless the resolved value at the path equals this one. Default: any.
    ifAbsent: Change nothing and fail with conflict if there is a value at the path. Excludes `ifValue`. Default: false.
    reason: Why the change is made, for the history and the log. At most 1,024 characters. Default: none.
    dryRun: Report the differences that the change would make, and change nothing. Default: false.
    """

    path: str | list[str]
    namespace: NotRequired[str]
    all: NotRequired[bool]
    ifRevision: NotRequired[int]
    epoch: NotRequired[str]
    ifValue: NotRequired[Any]
    ifAbsent: NotRequired[bool]
    reason: NotRequired[str]
    dryRun: NotRequired[bool]


class ConfigUnsubscribeParams(TypedDict):
    """The parameters of config.unsubscribe.

    subscription: Number from the reply to config.subscribe.
    """

    subscription: int


class ConfigUnsubscribeResult(TypedDict):
    """The result of config.unsubscribe.

    subscription: Number of a subscription, assigned by the agent and unique on its connection.
    """

    subscription: int


class ConfigWaitParams(TypedDict):
    """The parameters of config.wait.

    path: Default: the whole document. The path may have no value.
    namespace: Default: "default".
    equals: The value at the path equals this one. Null is the same as leaving it out.
    notEquals: The value at the path differs from this one, or does not exist. Null is the same as leaving it out.
    exists: Whether there is a value at the path.
    revisionAtLeast: The snapshot has this revision or a newer one.
    epoch: Epoch of revisionAtLeast. If this epoch is not the current one, the condition holds at once, because that
        revision will never be published. Default: the current one.
    timeoutMilliseconds: After this time the request fails with `timeout`. At most ten years. Default: never.
    """

    path: NotRequired[str | list[str]]
    namespace: NotRequired[str]
    equals: NotRequired[Any]
    notEquals: NotRequired[Any]
    exists: NotRequired[bool]
    revisionAtLeast: NotRequired[int]
    epoch: NotRequired[str]
    timeoutMilliseconds: NotRequired[int]


class ConfigWaitResult(TypedDict):
    """The result of config.wait.

    exists: Whether there is a value at the path.
    value: The value; absent if there is no value at the path.
    revision: Number of a published snapshot. It increases with each snapshot, never decreases, and survives restarts. 0
        if nothing has been published.
    epoch: Random ID of the state directory's lifetime. Revisions of different epochs cannot be compared.
    state: How up to date the configuration of the namespace is.
    """

    exists: bool
    value: NotRequired[Any]
    revision: int
    epoch: str
    state: Literal["initializing", "fresh", "refreshing", "stale", "failed"]


class FlagEvaluateParams(TypedDict):
    """The parameters of flag.evaluate.

    flag: Name of a feature flag.
    context: The facts about a user, a device or a request that rules refer to, such as `targetingKey`. The agent never
        logs them. Default: none.
    namespace: Default: "default".
    type: The expected type of the value. A flag with a value of another type is `TYPE_MISMATCH`. Default: any.
    default: The value if the flag has none: if it is disabled, if no variant is selected, or after an error. Null is
        the same as leaving it out.
    """

    flag: str
    context: NotRequired[dict[str, Any]]
    namespace: NotRequired[str]
    type: NotRequired[Literal["boolean", "string", "integer", "double", "object"]]
    default: NotRequired[Any]


class FlagEvaluateResult(TypedDict):
    """The result of flag.evaluate.

    value: The value of the variant, or `default`; absent if there is neither.
    variant: Name of the variant; absent if the value is not that of a variant.
    reason: Why the flag has this value.
    errorCode: Why the evaluation failed; absent unless `reason` is `ERROR`.
    errorMessage: Explanation of `errorCode` for people.
    metadata: The metadata of the flag, merged over that of the set; absent if empty.
    revision: Revision of the snapshot that contains the flags.
    epoch: Random ID of the state directory's lifetime. Revisions of different epochs cannot be compared.
    """

    value: NotRequired[Any]
    variant: NotRequired[str]
    reason: Literal["STATIC", "DEFAULT", "TARGETING_MATCH", "DISABLED", "ERROR"]
    errorCode: NotRequired[Literal["FLAG_NOT_FOUND", "PARSE_ERROR", "TYPE_MISMATCH", "GENERAL"]]
    errorMessage: NotRequired[str]
    metadata: NotRequired[dict[str, Any]]
    revision: int
    epoch: str


class FlagEvaluateAllParams(TypedDict):
    """The parameters of flag.evaluateAll.

    context: The facts about a user, a device or a request that rules refer to, such as `targetingKey`. The agent never
        logs them. Default: none.
    flags: The flags to evaluate. Default: all, sorted by name as bytes.
    namespace: Default: "default".
    """

    context: NotRequired[dict[str, Any]]
    flags: NotRequired[list[str]]
    namespace: NotRequired[str]


class FlagOutcome(TypedDict):
    """The outcome of the evaluation of a feature flag.

    flag: Name of a feature flag.
    value: The value of the variant; absent if the caller must use its own default.
    variant: Name of the variant; absent if the value is not that of a variant.
    reason: Why the flag has this value.
    errorCode: Why the evaluation failed; absent unless `reason` is `ERROR`.
    errorMessage: Explanation of `errorCode` for people.
    metadata: The metadata of the flag, merged over that of the set; absent if empty.
    """

    flag: str
    value: NotRequired[Any]
    variant: NotRequired[str]
    reason: Literal["STATIC", "DEFAULT", "TARGETING_MATCH", "DISABLED", "ERROR"]
    errorCode: NotRequired[Literal["FLAG_NOT_FOUND", "PARSE_ERROR", "TYPE_MISMATCH", "GENERAL"]]
    errorMessage: NotRequired[str]
    metadata: NotRequired[dict[str, Any]]


class FlagEvaluateAllResult(TypedDict):
    """The result of flag.evaluateAll.

    flags: The outcomes, in the order of the names.
    revision: Revision of the snapshot that contains the flags.
    epoch: Random ID of the state directory's lifetime. Revisions of different epochs cannot be compared.
    """

    flags: list[FlagOutcome]
    revision: int
    epoch: str


class FlagListParams(TypedDict):
    """The parameters of flag.list.

    namespace: Default: "default".
    """

    namespace: NotRequired[str]


class FlagSummary(TypedDict):
    """A feature flag.

    flag: Name of a feature flag.
    enabled: Whether `state` is `ENABLED`.
    variants: Names of the variants, in the order of the document; none if the flag is masked.
    defaultVariant: Name of the default variant; absent if the flag has none.
    targeting: Whether the flag has a rule.
    usesTime: Whether the rule uses `$flagd.timestamp`.
    problem: Why the flag cannot be evaluated, or that its default variant has no value; absent if neither is so.
    masked: The flag contains a secret, so its other members are left out; absent otherwise.
    """

    flag: str
    enabled: NotRequired[bool]
    variants: list[str]
    defaultVariant: NotRequired[str]
    targeting: NotRequired[bool]
    usesTime: NotRequired[bool]
    problem: NotRequired[str]
    masked: NotRequired[Literal[True]]


class FlagListResult(TypedDict):
    """The result of flag.list.

    member: `flags.member` in the settings: the member of the document that contains the flags by name. Empty if the
        whole document is in flagd's format, so that its member `flags` contains them.
    problem: Why the flags as a whole cannot be used; absent if they can.
    revision: Revision of the snapshot that contains the flags.
    epoch: Random ID of the state directory's lifetime. Revisions of different epochs cannot be compared.
    """

    member: str
    flags: list[FlagSummary]
    problem: NotRequired[str]
    revision: int
    epoch: str


class FlagSubscribeParams(TypedDict):
    """The parameters of flag.subscribe.

    flags: The flags, 1 to 64.
    context: The facts about a user, a device or a request that rules refer to, such as `targetingKey`. The agent never
        logs them. Default: none.
    namespace: Default: "default".
    """

    flags: list[str]
    context: NotRequired[dict[str, Any]]
    namespace: NotRequired[str]


class FlagSubscribeResult(TypedDict):
    """The result of flag.subscribe.

    subscription: Number of a subscription, assigned by the agent and unique on its connection.
    revision: Number of a published snapshot. It increases with each snapshot, never decreases, and survives restarts. 0
        if nothing has been published.
    epoch: Random ID of the state directory's lifetime. Revisions of different epochs cannot be compared.
    state: How up to date the configuration of the namespace is.
    """

    subscription: int
    revision: int
    epoch: str
    state: Literal["initializing", "fresh", "refreshing", "stale", "failed"]


class ImageCancelParams(TypedDict):
    """The parameters of image.cancel.

    download: ID of the download, from image.downloads.
    """

    download: int


class ImageCancelResult(TypedDict):
    """The result of image.cancel.

    requests: Number of requests that fail because of this.
    """

    requests: int


class ImageClearParams(TypedDict):
    """The parameters of image.clear.

    includingPinned: Whether to remove pinned images, too. Default: false.
    """

    includingPinned: NotRequired[bool]


class ImageClearResult(TypedDict):
    """The result of image.clear.

    removed: Number of removed images.
    bytes: Total size of the files that only these images used.
    """

    removed: int
    bytes: int


class ImageDownload(TypedDict):
    """A download of an image in progress.

    id: ID of the download. It is not reused while the agent runs.
    url: URL that is downloaded, without its query for users who have not requested this URL; absent if the peer may not
        have images of its origin.
    state: Whether the download waits for other downloads to end or has started.
    receivedBytes: Bytes of the image received so far. Decreases if the download starts again.
    totalBytes: Size of the image; absent until the origin declares it.
    bytesPerSecond: Mean rate since the download last left the queue; 0 while it is queued.
    requests: Requests that wait for the download; 0 if it runs in the background.
    priority: Highest priority of these requests.
    """

    id: int
    url: NotRequired[str]
    state: Literal["queued", "running"]
    receivedBytes: int
    totalBytes: NotRequired[int]
    bytesPerSecond: int
    requests: int
    priority: Literal["prefetch", "low", "normal", "high"]


class ImageDownloadsResult(TypedDict):
    """The result of image.downloads."""

    downloads: list[ImageDownload]


ImageGetParams = TypedDict(
    "ImageGetParams",
    {
        "url": str,
        "policy": NotRequired[Literal[
            "default",
            "cacheFirst",
            "networkFirst",
            "cacheOnly",
            "networkOnly",
            "staleWhileRevalidate",
        ]],
        "maximumAgeSeconds": NotRequired[int],
        "expectedDigest": NotRequired[str],
        "cacheKey": NotRequired[str],
        "as": NotRequired[Literal["path", "descriptor"]],
        "leaseSeconds": NotRequired[int],
        "priority": NotRequired[Literal["low", "normal", "high"]],
        "deadlineMilliseconds": NotRequired[int],
        "progress": NotRequired[bool],
    },
)


class ImageGetResult(TypedDict):
    """The result of image.get.

    path: Absolute path of the file.
    digest: SHA-256 of the bytes.
    mediaType: Media type of the format, determined from the bytes.
    width: In pixels, after the orientation is applied.
    height: In pixels, after the orientation is applied.
    bytes: Size of the file.
    frames: Number of frames; 1 for a still image. Absent if the agent would have to read the whole file to determine
        it.
    animation: Whether the image is an animation. Absent if the agent would have to read the whole file to determine it.
    alpha: Whether pixels may be transparent. Absent if the header does not show it.
    orientation: EXIF orientation: how a decoder must rotate or mirror the image. Absent if it is upright.
    lastModified: When the image was last modified, according to its origin. Absent if the origin does not report it.
    etag: Entity tag from the origin, with its quotes. Absent if the origin sent none.
    source: Whether the image was cached and perhaps validated ("hit"), was fetched for this request ("miss"), or was
        already being fetched ("joined").
    ageSeconds: Age according to RFC 9111, section 4.2.3.
    lease: Number of a lease, assigned by the agent and unique on its connection.
    descriptor: An open descriptor comes with the reply; absent otherwise.
    """

    path: str
    digest: str
    mediaType: Literal[
        "image/png",
        "image/jpeg",
        "image/gif",
        "image/webp",
        "image/avif",
        "image/bmp",
        "image/vnd.microsoft.icon",
        "image/svg+xml",
        "image/heic",
        "image/jxl",
    ]
    width: int
    height: int
    bytes: int
    frames: NotRequired[int]
    animation: NotRequired[bool]
    alpha: NotRequired[bool]
    orientation: NotRequired[int]
    lastModified: NotRequired[str]
    etag: NotRequired[str]
    freshness: Literal["fresh", "stale", "revalidated"]
    source: Literal["hit", "miss", "joined"]
    ageSeconds: int
    lease: int
    descriptor: NotRequired[Literal[True]]


class ImageListParams(TypedDict):
    """The parameters of image.list.

    after: The `next` of the previous page. Default: the first page.
    limit: Maximum number of images. Default: 100.
    prefix: Prefix of the URLs: an origin, or an origin and the beginning of a path, without a fragment. Default: all.
    """

    after: NotRequired[str]
    limit: NotRequired[int]
    prefix: NotRequired[str]


class ListedImage(TypedDict):
    """One cached image.

    url: URL by which the image is looked up. With a cacheKey, it has no query.
    cacheKey: The key that takes the place of the URL's query; absent if the image is looked up by its whole URL.
    digest: SHA-256.
    mediaType: Media type of the format, determined from the bytes.
    frames: Number of frames; 1 for a still image. Absent if the agent would have to read the whole file to determine
        it.
    animation: Whether the image is an animation. Absent if the agent would have to read the whole file to determine it.
    alpha: Whether pixels may be transparent. Absent if the header does not show it.
    orientation: EXIF orientation: how a decoder must rotate or mirror the image. Absent if it is upright.
    lastModified: When the image was last modified, according to its origin. Absent if the origin does not report it.
    etag: Entity tag from the origin, with its quotes. Absent if the origin sent none.
    storedAt: When the origin sent or validated the image.
    lastUsedAt: When the image was last requested. May lag by some seconds.
    expiresAt: When the image becomes stale; null if each use requires a validation.
    """

    url: str
    cacheKey: NotRequired[str]
    digest: str
    mediaType: Literal[
        "image/png",
        "image/jpeg",
        "image/gif",
        "image/webp",
        "image/avif",
        "image/bmp",
        "image/vnd.microsoft.icon",
        "image/svg+xml",
        "image/heic",
        "image/jxl",
    ]
    width: int
    height: int
    bytes: int
    frames: NotRequired[int]
    animation: NotRequired[bool]
    alpha: NotRequired[bool]
    orientation: NotRequired[int]
    lastModified: NotRequired[str]
    etag: NotRequired[str]
    pinned: bool
    storedAt: str
    lastUsedAt: str
    expiresAt: str | None
    freshness: Literal["fresh", "stale"]


class ImageListResult(TypedDict):
    """The result of image.list.

    next: Value of `after` for the next page; null on the last page.
    """

    images: list[ListedImage]
    next: str | None


class ImagePeekParams(TypedDict):
    """The parameters of image.peek.

    url: Absolute http or https URL of an image. A fragment is ignored.
    policy: Default: "default".
    maximumAgeSeconds: Maximum age of the image in seconds; at most ten years.
    cacheKey: Key that takes the place of the URL's query when the image is looked up. Intended for signed URLs. At most
        512 bytes.
    explain: Whether to list the rules. Default: false.
    """

    url: str
    policy: NotRequired[Literal[
        "default",
        "cacheFirst",
        "networkFirst",
        "cacheOnly",
        "networkOnly",
        "staleWhileRevalidate",
    ]]
    maximumAgeSeconds: NotRequired[int]
    cacheKey: NotRequired[str]
    explain: NotRequired[bool]


class ImagePeekRule(TypedDict):
    """An object of the protocol.

    name: A short, stable identifier.
    text: The outcome, for people.
    """

    name: str
    text: str


class ImagePeekResult(TypedDict):
    """The result of image.peek.

    cached: Whether an image is cached. If not, the members up to expiresAt are absent.
    path: Absolute path of the file, which may be removed at any time.
    digest: SHA-256 of the bytes.
    mediaType: Media type of the format, determined from the bytes.
    width: In pixels, after the orientation is applied.
    height: In pixels, after the orientation is applied.
    bytes: Size of the file.
    frames: Number of frames; 1 for a still image. Absent if the agent would have to read the whole file to determine
        it.
    animation: Whether the image is an animation. Absent if the agent would have to read the whole file to determine it.
    alpha: Whether pixels may be transparent. Absent if the header does not show it.
    orientation: EXIF orientation: how a decoder must rotate or mirror the image. Absent if it is upright.
    lastModified: When the image was last modified, according to its origin. Absent if the origin does not report it.
    etag: Entity tag from the origin, with its quotes. Absent if the origin sent none.
    ageSeconds: Age according to RFC 9111, section 4.2.3.
    storedAt: When the origin sent or validated the image.
    lastUsedAt: When the image was last requested. May lag by some seconds.
    expiresAt: When the image becomes stale; null if each use requires a validation.
    decision: The answer that image.get would give, or the request that it would make first.
    revalidates: Whether image.get would validate the image in the background after its reply.
    download: The download in progress that image.get would wait for; otherwise absent.
    rules: The rules in the order in which they were applied; absent without `explain`.
    """

    cached: bool
    path: NotRequired[str]
    digest: NotRequired[str]
    mediaType: NotRequired[Literal[
        "image/png",
        "image/jpeg",
        "image/gif",
        "image/webp",
        "image/avif",
        "image/bmp",
        "image/vnd.microsoft.icon",
        "image/svg+xml",
        "image/heic",
        "image/jxl",
    ]]
    width: NotRequired[int]
    height: NotRequired[int]
    bytes: NotRequired[int]
    frames: NotRequired[int]
    animation: NotRequired[bool]
    alpha: NotRequired[bool]
    orientation: NotRequired[int]
    lastModified: NotRequired[str]
    etag: NotRequired[str]
    freshness: NotRequired[Literal["fresh", "stale"]]
    ageSeconds: NotRequired[int]
    pinned: NotRequired[bool]
    storedAt: NotRequired[str]
    lastUsedAt: NotRequired[str]
    expiresAt: NotRequired[str | None]
    decision: Literal["fresh", "stale", "revalidate", "fetch", "notCached"]
    revalidates: bool
    download: NotRequired[ImageDownload]
    rules: NotRequired[list[ImagePeekRule]]


class ImagePinParams(TypedDict):
    """The parameters of image.pin.

    url: Absolute http or https URL of an image. A fragment is ignored.
    cacheKey: Key that takes the place of the URL's query when the image is looked up. Intended for signed URLs. At most
        512 bytes.
    """

    url: str
    cacheKey: NotRequired[str]


class ImagePinResult(TypedDict):
    """The result of image.pin.

    digest: SHA-256 of the bytes.
    mediaType: Media type of the format, determined from the bytes.
    width: In pixels, after the orientation is applied.
    height: In pixels, after the orientation is applied.
    bytes: Size of the file.
    frames: Number of frames; 1 for a still image. Absent if the agent would have to read the whole file to determine
        it.
    animation: Whether the image is an animation. Absent if the agent would have to read the whole file to determine it.
    alpha: Whether pixels may be transparent. Absent if the header does not show it.
    orientation: EXIF orientation: how a decoder must rotate or mirror the image. Absent if it is upright.
    lastModified: When the image was last modified, according to its origin. Absent if the origin does not report it.
    etag: Entity tag from the origin, with its quotes. Absent if the origin sent none.
    """

    pinned: Literal[True]
    digest: str
    mediaType: Literal[
        "image/png",
        "image/jpeg",
        "image/gif",
        "image/webp",
        "image/avif",
        "image/bmp",
        "image/vnd.microsoft.icon",
        "image/svg+xml",
        "image/heic",
        "image/jxl",
    ]
    width: int
    height: int
    bytes: int
    frames: NotRequired[int]
    animation: NotRequired[bool]
    alpha: NotRequired[bool]
    orientation: NotRequired[int]
    lastModified: NotRequired[str]
    etag: NotRequired[str]


class ImagePrefetchParamsUrl(TypedDict):
    """An object of the protocol.

    url: Absolute http or https URL of an image. A fragment is ignored.
    cacheKey: Key that takes the place of the URL's query when the image is looked up. Intended for signed URLs. At most
        512 bytes.
    expectedDigest: SHA-256 that the image must have. The prefix "sha256:" is optional.
    """

    url: str
    cacheKey: NotRequired[str]
    expectedDigest: NotRequired[str]


class ImagePrefetchParams(TypedDict):
    """The parameters of image.prefetch.

    urls: URLs, or objects with a URL.
    concurrency: Maximum number of concurrent fetches. Default: 16. The settings' limits on downloads apply as well.
    progress: Whether to send image.progress. Default: true.
    """

    urls: list[str | ImagePrefetchParamsUrl]
    concurrency: NotRequired[int]
    progress: NotRequired[bool]


class ImageFailure(TypedDict):
    """An image that could not be cached, with the error that image.get would return.

    url: The URL as requested.
    name: Name of an error in the error table.
    detail: Description of the error, for people.
    reason: Reason of the error; absent if it has none.
    """

    url: str
    name: str
    detail: str
    reason: NotRequired[str]


class ImagePrefetchResult(TypedDict):
    """The result of image.prefetch.

    total: Number of requested images.
    fetched: Images that were fetched or validated.
    cached: Images that were cached and usable.
    failed: Images that failed.
    bytes: Bytes fetched.
    failures: The first failures, in the order of the list.
    failuresOmitted: Number of further failures; absent if 0.
    """

    total: int
    fetched: int
    cached: int
    failed: int
    bytes: int
    failures: list[ImageFailure]
    failuresOmitted: NotRequired[int]


class ImagePutParams(TypedDict):
    """The parameters of image.put.

    url: Absolute http or https URL of an image. A fragment is ignored.
    data: Bytes of the whole file in base64 with padding. Required without `descriptor`.
    cacheKey: Key that takes the place of the URL's query when the image is looked up. Intended for signed URLs. At most
        512 bytes.
    expectedDigest: SHA-256 that the image must have. The prefix "sha256:" is optional.
    lifetimeSeconds: How long the image is fresh. Default: a year.
    descriptor: Whether the bytes are in a file in memory, whose descriptor comes with the first byte of the line.
        Excludes `data`. Default: false.
    """

    url: str
    data: NotRequired[str]
    cacheKey: NotRequired[str]
    expectedDigest: NotRequired[str]
    lifetimeSeconds: NotRequired[int]
    descriptor: NotRequired[bool]


class ImagePutResult(TypedDict):
    """The result of image.put.

    digest: SHA-256.
    mediaType: Media type of the format, determined from the bytes.
    width: In pixels, after the orientation is applied.
    height: In pixels, after the orientation is applied.
    bytes: Size of the file.
    frames: Number of frames; 1 for a still image. Absent if the agent would have to read the whole file to determine
        it.
    animation: Whether the image is an animation. Absent if the agent would have to read the whole file to determine it.
    alpha: Whether pixels may be transparent. Absent if the header does not show it.
    orientation: EXIF orientation: how a decoder must rotate or mirror the image. Absent if it is upright.
    """

    digest: str
    mediaType: Literal[
        "image/png",
        "image/jpeg",
        "image/gif",
        "image/webp",
        "image/avif",
        "image/bmp",
        "image/vnd.microsoft.icon",
        "image/svg+xml",
        "image/heic",
        "image/jxl",
    ]
    width: int
    height: int
    bytes: int
    frames: NotRequired[int]
    animation: NotRequired[bool]
    alpha: NotRequired[bool]
    orientation: NotRequired[int]


class ImageReleaseParams(TypedDict):
    """The parameters of image.release.

    lease: Number from a reply to image.get on this connection.
    """

    lease: int


class ImageReleaseResult(TypedDict):
    """The result of image.release.

    released: Whether the connection had such a lease.
    """

    released: bool


class ImageRemoveParams(TypedDict):
    """The parameters of image.remove.

    url: Absolute http or https URL of an image. A fragment is ignored.
    cacheKey: Key that takes the place of the URL's query when the image is looked up. Intended for signed URLs. At most
        512 bytes.
    prefix: Instead of `url`: removes all images whose URLs have this prefix, which is an origin, or an origin and the
        beginning of a path, without a fragment.
    dryRun: Whether to only report what would be removed. Default: false.
    """

    url: NotRequired[str]
    cacheKey: NotRequired[str]
    prefix: NotRequired[str]
    dryRun: NotRequired[bool]


class ImageRemoveResult(TypedDict):
    """The result of image.remove.

    removed: Whether an image was removed.
    images: Number of images that were removed or, in a dry run, would be.
    bytes: Total size of the files that only these images use, each counted once.
    """

    removed: bool
    images: int
    bytes: int


class ImageUnpinParams(TypedDict):
    """The parameters of image.unpin.

    url: Absolute http or https URL of an image. A fragment is ignored.
    cacheKey: Key that takes the place of the URL's query when the image is looked up. Intended for signed URLs. At most
        512 bytes.
    """

    url: str
    cacheKey: NotRequired[str]


class ImageUnpinResult(TypedDict):
    """The result of image.unpin.

    wasPinned: Whether the image was pinned; false also if it is not cached.
    """

    wasPinned: bool


class RequestCancelParams(TypedDict):
    """The parameters of request.cancel.

    id: ID of the request to cancel.
    """

    id: str | float | None


class RequestCancelResult(TypedDict):
    """The result of request.cancel.

    cancelled: Whether such a request was pending.
    """

    cancelled: bool


class RpcDiscoverResult(TypedDict):
    """The result of rpc.discover."""

    openrpc: str
    info: dict[str, Any]
    methods: list[dict[str, Any]]
    components: dict[str, Any]
