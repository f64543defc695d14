/// The replies to a batch, which are written together as one line, in the order of the requests.
final class BatchReply {
    /// A place for each request; nil for a notification, and as long as the reply is not there.
    private(set) var replies: [[UInt8]?] = []
    /// Requests whose reply is not there yet.
    var waiting = 0
    /// Whether every request of the batch was looked at.
    var isComplete = false
    /// What is to be done once the line is written.
    var afterwards: [() -> Void] = []

    /// The place for the next request's reply.
    func nextPlace() -> BatchPlace {
        replies.append(nil)
        return BatchPlace(batch: self, index: replies.count - 1)
    }

    fileprivate func put(_ reply: [UInt8], at index: Int) { replies[index] = reply }
}

/// Where the reply to one request of a batch belongs.
struct BatchPlace {
    let batch: BatchReply
    fileprivate let index: Int

    func put(_ reply: [UInt8]) { batch.put(reply, at: index) }
}
