import LarderJSON
import LarderProtocol

/// A batch: the requests that have not been started, and the replies so far. The replies are written as one line, in
/// the order of the requests.
final class BatchReply {
    /// The size of the replies above which no further results are added. Each of 64 requests may request a whole
    /// document.
    private static let maxBytes = 16 << 20

    /// The length of the batch's line if it is long, otherwise 0. The line is retained until all requests have been
    /// started.
    let lineBytes: Int
    private var requests: ArraySlice<JSONValue>
    private let count: Int
    /// The number of slots that have a reply or stay empty.
    private var settled = 0
    /// The array of replies of all slots before ``nextJoined``.
    private var joined = JSONWriter()
    private var nextJoined = 0
    /// Replies of slots after the first unsettled one.
    private var early: [Int: Early] = [:]
    private var earlyBytes = 0
    private var isEmpty = true
    private var afterwards: [() -> Void] = []

    private enum Early {
        /// The slot of a notification.
        case nothing
        case text([UInt8])
        /// Writes a reply of about this many bytes once all other replies are known, which may never happen. Until then
        /// the closure retains the document of the reply, which usually has other owners too.
        case result(bytes: Int, (inout JSONWriter) -> Void)
    }

    init(_ requests: [JSONValue], lineBytes: Int) {
        self.lineBytes = lineBytes
        self.requests = requests[...]
        count = requests.count
        joined.beginArray()
    }

    /// Whether all requests have been started.
    var isStarted: Bool { requests.isEmpty }

    /// Whether the line can be written.
    var isComplete: Bool { settled == count }

    /// Whether more than one request that was started has no reply yet.
    var isWaiting: Bool { count - requests.count - settled > 1 }

    /// Whether there is no room for more results.
    var isFull: Bool { chargedBytes > Self.maxBytes }

    /// Bytes of the replies so far.
    var chargedBytes: Int { joined.bytes.count + earlyBytes }

    /// The part of ``chargedBytes`` that ``BatchQueue`` has counted.
    var countedBytes = 0

    /// The error of a request whose result does not fit into the batch.
    static var noRoom: WireError {
        WireError(
            .limitExceeded,
            "the replies to this batch exceed \(maxBytes) bytes; send this request outside the batch")
    }

    /// The next request to start, and the slot of its reply.
    func next() -> (request: JSONValue, slot: BatchSlot)? {
        guard let request = requests.popFirst() else { return nil }
        return (request, BatchSlot(batch: self, index: count - requests.count - 1))
    }

    /// Runs an action after the line was written.
    func then(_ action: @escaping () -> Void) { afterwards.append(action) }

    /// The line, and the actions to run after it was written. There is no line if no request has a reply.
    func finish() -> (line: [UInt8]?, afterwards: [() -> Void]) {
        defer { (joined, afterwards) = (JSONWriter(), []) }
        if isEmpty { return (nil, afterwards) }
        joined.endArray()
        joined.endLine()
        return (joined.bytes, afterwards)
    }

    fileprivate func put<Failure: Error>(
        at index: Int, _ body: (inout JSONWriter) throws(Failure) -> Void
    ) throws(Failure) {
        if index == nextJoined {
            let mark = joined.mark
            do throws(Failure) {
                try body(&joined)
            } catch {
                joined.rewind(to: mark)
                throw error
            }
            nextJoined += 1
        } else {
            var writer = JSONWriter()
            try body(&writer)
            early[index] = .text(writer.bytes)
            earlyBytes += writer.bytes.count
        }
        isEmpty = false
        settle()
    }

    fileprivate func put(at index: Int, later bytes: Int, _ body: @escaping (inout JSONWriter) -> Void) {
        early[index] = .result(bytes: bytes, body)
        earlyBytes += bytes
        isEmpty = false
        settle()
    }

    fileprivate func leaveEmpty(_ index: Int) {
        if index == nextJoined { nextJoined += 1 } else { early[index] = .nothing }
        settle()
    }

    private func settle() {
        settled += 1
        while let reply = early[nextJoined] {
            switch reply {
            case .nothing: break
            case .text(let text):
                joined.raw(text)
                earlyBytes -= text.count
            case .result(let bytes, let write):
                guard isComplete else { return }
                write(&joined)
                earlyBytes -= bytes
            }
            early[nextJoined] = nil
            nextJoined += 1
        }
    }
}

/// The slot for the reply to one request of a batch. It is settled once: by a reply, or as empty.
struct BatchSlot {
    let batch: BatchReply
    fileprivate let index: Int

    /// Writes the reply. If `body` throws, nothing is written.
    func put<Failure: Error>(_ body: (inout JSONWriter) throws(Failure) -> Void) throws(Failure) {
        try batch.put(at: index, body)
    }

    /// Writes the reply after the replies to all other requests are known.
    /// - Parameter bytes: about how long it will be.
    func put(later bytes: Int, _ body: @escaping (inout JSONWriter) -> Void) {
        batch.put(at: index, later: bytes, body)
    }

    /// Leaves the slot of a notification empty.
    func leaveEmpty() { batch.leaveEmpty(index) }
}
