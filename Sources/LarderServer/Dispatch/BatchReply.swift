import LarderJSON
import LarderProtocol

/// A JSON-RPC batch: the requests that have not been started, and the replies so far. The replies are written as one
/// line, in the order of the requests.
final class BatchReply {
    /// The total size of the replies in bytes above which no further results are added. Without this limit, each of the
    /// 64 requests of a batch could add a whole document.
    private static let maxBytes = 16 << 20

    /// The memory of the parsed requests in bytes. It is retained until all requests have been started.
    let requestBytes: Int
    /// The part of ``requestBytes`` that does not stem from earlier and longer lines, whose memory the parser has reused.
    let ownRequestBytes: Int
    private var requests: ArraySlice<JSONValue>
    private let count: Int
    /// The number of slots that are settled: they have a reply, or stay empty because the request is a notification.
    private var settled = 0
    /// The JSON array of the replies in all slots before ``nextJoined``.
    private var joined = JSONWriter()
    private var nextJoined = 0
    /// Replies, by slot, that wait until the replies in all earlier slots have been joined. Empty for the slot of a
    /// notification.
    private var early: [Int: [UInt8]] = [:]
    private var earlyBytes = 0
    private var isEmpty = true
    private var afterwards: [() -> Void] = []

    /// - Parameter message: an array of requests
    init(_ message: JSONValue) {
        (requestBytes, ownRequestBytes) = (message.documentMemory, message.detachedMemory)
        requests = Array(message.elements)[...]
        count = message.count
        joined.beginArray()
    }

    /// Whether all requests have been started.
    var isStarted: Bool { requests.isEmpty }

    /// Whether all slots are settled, so that the line with the replies can be written.
    var isComplete: Bool { settled == count }

    /// Whether the replies are so large that no further results are added.
    var isFull: Bool { chargedBytes > Self.maxBytes }

    /// The number of bytes of the replies so far.
    var chargedBytes: Int { joined.bytes.count + earlyBytes }

    /// The part of ``chargedBytes`` that ``ReplyWriter`` has counted.
    var countedBytes = 0

    /// Whether the batch was full before the reply that is being written.
    var wasFull: Bool { countedBytes > Self.maxBytes }

    /// The error of a request whose result does not fit into the batch.
    static var noRoom: WireError {
        WireError(
            .limitExceeded,
            "the replies to this batch exceed \(maxBytes) bytes; send this request outside the batch")
    }

    /// The next request to start, and the slot of its reply.
    func next() -> (request: JSONValue, slot: BatchSlot)? {
        guard let request = requests.popFirst() else { return nil }
        let slot = BatchSlot(batch: self, index: count - requests.count - 1)
        // An empty slice would retain the array of all requests.
        if requests.isEmpty { requests = [] }
        return (request, slot)
    }

    /// Adds an action to run after the line was written.
    func then(_ action: @escaping () -> Void) { afterwards.append(action) }

    /// The line (nil if no request has a reply), and the actions to run after the line was written.
    func finish() -> (line: [UInt8]?, afterwards: [() -> Void]) {
        defer { (joined, afterwards) = (JSONWriter(), []) }
        if isEmpty { return (nil, afterwards) }
        joined.endArray()
        joined.endLine()
        return (joined.bytes, afterwards)
    }

    fileprivate func put(at index: Int, _ body: (inout JSONWriter) -> Void) {
        if index == nextJoined {
            body(&joined)
            nextJoined += 1
        } else {
            var writer = JSONWriter()
            body(&writer)
            early[index] = writer.bytes
            earlyBytes += writer.bytes.count
        }
        isEmpty = false
        settle()
    }

    fileprivate func leaveEmpty(_ index: Int) {
        if index == nextJoined { nextJoined += 1 } else { early[index] = [] }
        settle()
    }

    private func settle() {
        settled += 1
        while let text = early.removeValue(forKey: nextJoined) {
            if !text.isEmpty { joined.raw(text) }
            earlyBytes -= text.count
            nextJoined += 1
        }
    }
}

/// The slot for the reply to one request of a batch. It is settled once: by a reply, or as empty.
struct BatchSlot {
    let batch: BatchReply
    fileprivate let index: Int

    /// Writes the reply.
    func put(_ body: (inout JSONWriter) -> Void) { batch.put(at: index, body) }

    /// Leaves the slot of a notification empty.
    func leaveEmpty() { batch.leaveEmpty(index) }
}
