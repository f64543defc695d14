import LarderJSON

/// What every answer of etcd says about itself.
struct EtcdHeader: Sendable, Equatable {
    /// The cluster's id. One that was restored from a backup under another token has another, and counts anew.
    var cluster: String
    /// The revision of the member that answers.
    var revision: Int

    init(cluster: String, revision: Int) {
        self.cluster = cluster
        self.revision = revision
    }

    /// - Parameter value: `header`; members that are 0 are left out by the gateway.
    init?(_ value: JSONValue?) {
        guard let value, value.kind == .object, let cluster = value["cluster_id"] else { return nil }
        guard let cluster = cluster.string ?? cluster.numberText else { return nil }
        self.cluster = cluster
        guard let revision = EtcdNumber.int(value["revision"]) else { return nil }
        self.revision = revision
    }
}

/// 64-bit integers of protocol buffers, which JSON carries as strings.
enum EtcdNumber {
    /// The number; 0 where there is none, nil where it is something else.
    static func int(_ value: JSONValue?) -> Int? {
        guard let value else { return 0 }
        return value.int ?? value.string.flatMap { Int($0) }
    }

    /// A truth value; false where there is none.
    static func bool(_ value: JSONValue?) -> Bool { value?.bool ?? false }
}

/// A key as an answer or an event has it.
struct EtcdPair: Sendable, Equatable {
    var key: [UInt8]
    /// Empty for a deletion.
    var value: [UInt8]
    /// The revision of its last change, deletions included.
    var modified: Int

    init(key: [UInt8], value: [UInt8], modified: Int) {
        self.key = key
        self.value = value
        self.modified = modified
    }

    init?(_ value: JSONValue) {
        guard let key = value["key"]?.string.flatMap(Base64.bytes), let modified = EtcdNumber.int(value["mod_revision"])
        else { return nil }
        guard let content = Base64.bytes(of: value["value"]?.string ?? "") else { return nil }
        self.init(key: key, value: content, modified: modified)
    }
}

/// One page of a range request's answer.
struct EtcdPage: Sendable, Equatable {
    var header: EtcdHeader
    var pairs: [EtcdPair]
    /// Whether there are keys behind the last one.
    var hasMore: Bool

    init?(_ value: JSONValue) {
        guard let header = EtcdHeader(value["header"]) else { return nil }
        self.header = header
        pairs = []
        for pair in value["kvs"]?.elements.map({ EtcdPair($0) }) ?? [] {
            guard let pair else { return nil }
            pairs.append(pair)
        }
        hasMore = EtcdNumber.bool(value["more"])
    }
}

/// A key that was put or deleted.
struct EtcdEvent: Sendable, Equatable {
    var pair: EtcdPair
    var isDeletion: Bool

    init(pair: EtcdPair, isDeletion: Bool) {
        self.pair = pair
        self.isDeletion = isDeletion
    }

    init?(_ value: JSONValue) {
        guard let pair = value["kv"].flatMap({ EtcdPair($0) }) else { return nil }
        self.pair = pair
        // PUT is 0 and left out.
        isDeletion = value["type"]?.string == "DELETE" || value["type"]?.int == 1
    }
}

struct EtcdWatchMessage: Sendable, Equatable {
    var header: EtcdHeader
    /// The answer to the request: what happens from now on is told.
    var isCreated = false
    /// Nothing more will come, for this reason.
    var cancelReason: String?
    /// The oldest revision that is left, if the one asked for is not.
    var compactRevision = 0
    /// The rest of these events comes with the next message.
    var isFragment = false
    /// -1 for what is said to no watch in particular.
    var watchID = 0
    var events: [EtcdEvent] = []

    init(header: EtcdHeader) { self.header = header }

    init?(_ value: JSONValue) {
        guard let result = value["result"], let header = EtcdHeader(result["header"]) else { return nil }
        self.header = header
        isCreated = EtcdNumber.bool(result["created"])
        if EtcdNumber.bool(result["canceled"]) { cancelReason = result["cancel_reason"]?.string ?? "" }
        guard let compactRevision = EtcdNumber.int(result["compact_revision"]),
            let watchID = EtcdNumber.int(result["watch_id"])
        else { return nil }
        self.compactRevision = compactRevision
        self.watchID = watchID
        isFragment = EtcdNumber.bool(result["fragment"])
        for event in result["events"]?.elements.map({ EtcdEvent($0) }) ?? [] {
            guard let event else { return nil }
            events.append(event)
        }
    }

    /// Whether the message is a progress notification: whatever happened up to its revision was told before it.
    ///
    /// One that is addressed to no watch answers a progress request. From servers before 3.4.25 and 3.5.8 it may overtake
    /// events, so it proves that the stream lives and nothing else (etcd-io/etcd#15220). We send no such request: over
    /// HTTP/1.1 the gateway does not answer before the request has ended.
    var isProgress: Bool { !isCreated && cancelReason == nil && events.isEmpty && !isFragment && watchID != -1 }
}
