import LarderJSON

/// The header of every response of etcd.
struct EtcdHeader: Sendable, Equatable {
    /// The ID of the cluster. A cluster that was restored from a backup with another `--initial-cluster-token` has a
    /// new ID and counts revisions from the start.
    var cluster: String
    /// The revision of the member that sent the response.
    var revision: Int
}

extension EtcdHeader {
    /// - Parameter value: the member `header`; the gateway omits members that are 0
    init?(_ value: JSONValue?) {
        guard let value, value.kind == .object, let cluster = value["cluster_id"] else { return nil }
        guard let cluster = cluster.string ?? cluster.numberText, let revision = EtcdNumber.int(value["revision"])
        else { return nil }
        self.init(cluster: cluster, revision: revision)
    }
}

/// 64-bit integers of protocol buffers, which are strings in JSON.
enum EtcdNumber {
    /// The number; 0 if it is missing, nil if it is invalid.
    static func int(_ value: JSONValue?) -> Int? {
        guard let value else { return 0 }
        return value.int ?? value.string.flatMap { Int($0) }
    }
}

/// A key with its value, in a response or an event.
struct EtcdPair: Sendable, Equatable {
    var key: [UInt8]
    /// Empty for a deletion.
    var value: [UInt8]
    /// The revision of the last change of the key. A deletion is also a change.
    var modified: Int
}

extension EtcdPair {
    init?(_ value: JSONValue) {
        guard let key = value["key"]?.string.flatMap(Base64.bytes), let modified = EtcdNumber.int(value["mod_revision"])
        else { return nil }
        guard let content = Base64.bytes(of: value["value"]?.string ?? "") else { return nil }
        self.init(key: key, value: content, modified: modified)
    }
}

/// One page of the response to a range request.
struct EtcdPage: Sendable, Equatable {
    var header: EtcdHeader
    var pairs: [EtcdPair]
    var hasMore: Bool

    init?(_ value: JSONValue) {
        guard let header = EtcdHeader(value["header"]) else { return nil }
        self.init(value, header)
    }

    private init?(_ value: JSONValue, _ header: EtcdHeader) {
        guard let pairs = (value["kvs"] ?? .array([])).elements.mapAll(EtcdPair.init) else { return nil }
        self.header = header
        self.pairs = pairs
        hasMore = value["more"]?.bool == true
    }

    /// The pages in the response to a transaction of range requests, all at one revision; nil if the response has another
    /// form. Only the response itself has a complete header.
    static func all(ofTransaction value: JSONValue) -> [EtcdPage]? {
        guard let header = EtcdHeader(value["header"]) else { return nil }
        return (value["responses"] ?? .array([])).elements.mapAll { response in
            response["response_range"].flatMap { EtcdPage($0, header) }
        }
    }
}

/// A key that was put or deleted.
struct EtcdEvent: Sendable, Equatable {
    var pair: EtcdPair
    var isDeletion: Bool
}

extension EtcdEvent {
    init?(_ value: JSONValue) {
        guard let pair = value["kv"].flatMap({ EtcdPair($0) }) else { return nil }
        // PUT has the value 0, which the gateway omits.
        self.init(pair: pair, isDeletion: value["type"]?.string == "DELETE" || value["type"]?.int == 1)
    }
}

struct EtcdWatchMessage: Sendable, Equatable {
    var header: EtcdHeader
    /// Whether the message only confirms the request for the watch. Events follow in later messages.
    var isCreated = false
    /// Why etcd cancelled the watch; nil if it did not.
    var cancelReason: String?
    /// The oldest available revision, if the requested one has been compacted; otherwise 0.
    var compactRevision = 0
    /// Whether the next message continues the events of this one.
    var isFragment = false
    /// The ID of the watch to which the message belongs; -1 if it belongs to none.
    var watchID = 0
    var events: [EtcdEvent] = []
}

extension EtcdWatchMessage {
    init?(_ value: JSONValue) {
        guard let result = value["result"], let header = EtcdHeader(result["header"]) else { return nil }
        self.init(header: header)
        isCreated = result["created"]?.bool == true
        if result["canceled"]?.bool == true { cancelReason = result["cancel_reason"]?.string ?? "" }
        guard let compactRevision = EtcdNumber.int(result["compact_revision"]),
            let watchID = EtcdNumber.int(result["watch_id"]),
            let events = (result["events"] ?? .array([])).elements.mapAll(EtcdEvent.init)
        else { return nil }
        self.compactRevision = compactRevision
        self.watchID = watchID
        isFragment = result["fragment"]?.bool == true
        self.events = events
    }

    /// Whether the message is a progress notification. All events up to its revision have been sent before it.
    ///
    /// A notification with the watch ID -1 is the response to a progress request. From servers before 3.4.25 and 3.5.8
    /// it can overtake events, so that it only proves that the stream works (etcd-io/etcd#15220). The agent sends no
    /// progress requests, because over HTTP/1.1 the gateway does not respond before the request has ended.
    var isProgress: Bool { !isCreated && cancelReason == nil && events.isEmpty && !isFragment && watchID != -1 }
}

/// Splits the response to a watch into its messages, which are JSON objects. etcd ends each message with a line feed
/// and writes none inside. The messages do not depend on how the input is cut into pieces.
struct EtcdFramer {
    struct TooLarge: Error {}

    private let maximumBytes: Int
    private var buffer: [UInt8] = []
    /// The index of the first byte of the next message in the buffer. The bytes before it are removed by the next
    /// ``append(_:)``, and not after each message, which would take quadratic time.
    private var start = 0
    /// The index of the first byte that has not been searched for a line feed.
    private var position = 0

    /// - Parameter maximumBytes: the maximum size of a message
    init(maximumBytes: Int) { self.maximumBytes = maximumBytes }

    mutating func append(_ piece: some Collection<UInt8>) {
        buffer.removeFirst(start)
        (position, start) = (position - start, 0)
        buffer.append(contentsOf: piece)
    }

    /// Returns the next complete message; nil if more bytes are needed.
    mutating func next() throws(TooLarge) -> [UInt8]? {
        let end = buffer[position...].firstIndex(of: UInt8(ascii: "\n"))
        position = end ?? buffer.count
        guard position - start <= maximumBytes else { throw TooLarge() }
        guard let end else { return nil }
        defer {
            position = end + 1
            start = position
        }
        return Array(buffer[start..<end])
    }
}
