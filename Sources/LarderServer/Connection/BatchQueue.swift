/// The state of the JSON-RPC batches of one connection.
struct BatchQueue {
    /// The batch whose remaining requests wait until the connection may start more requests or gets its next time
    /// slice; nil if no batch waits. Input that follows the batch waits too.
    var waiting: BatchReply?
    /// Whether requests of ``waiting`` have been kept for later, so that its memory counts. While the requests are first
    /// started, it does not: the limit applies to what outlives that.
    var keepsRequests = false
    /// The number of bytes of replies in incomplete batches.
    private(set) var replyBytes = 0

    /// The number of bytes buffered for batches: replies, and the requests of the waiting batch.
    var chargedBytes: Int { replyBytes + (keepsRequests ? waiting?.requestBytes ?? 0 : 0) }

    /// Updates ``replyBytes`` after replies have been added to a batch.
    mutating func update(_ batch: BatchReply) {
        replyBytes += batch.chargedBytes - batch.countedBytes
        batch.countedBytes = batch.chargedBytes
    }

    /// Stops counting the replies of a batch, because the line with its replies has been written.
    mutating func complete(_ batch: BatchReply) {
        replyBytes -= batch.countedBytes
    }
}
