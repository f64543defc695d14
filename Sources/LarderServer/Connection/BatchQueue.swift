/// The batches of one connection: the one whose requests wait to be started, and the replies of those under way.
struct BatchQueue {
    /// The batch whose next requests wait for a place or for their time slice. The input behind it waits, too.
    var waiting: BatchReply?
    /// Bytes of the replies to batches that are not complete.
    private(set) var replyBytes = 0

    /// Bytes that are buffered for batches: replies, and the line of the one that waits.
    var heldBytes: Int { replyBytes + (waiting?.lineBytes ?? 0) }

    /// Counts the replies that a batch has gained or written.
    mutating func update(_ batch: BatchReply) {
        replyBytes += batch.heldBytes - batch.countedBytes
        batch.countedBytes = batch.heldBytes
    }

    /// Counts the replies of a batch no longer, because its line is written.
    mutating func complete(_ batch: BatchReply) {
        replyBytes -= batch.countedBytes
    }
}
