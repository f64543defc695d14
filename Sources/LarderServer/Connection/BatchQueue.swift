import LarderJSON
import LarderProtocol

/// Batches: several requests on one line, and their replies on one.
extension Connection {
    /// The most requests in a batch.
    static let maximumBatch = 64

    /// Takes a batch and starts what there is room for.
    func handleBatch(_ message: JSONValue) {
        let count = message.count
        if count == 0 { return refuse(WireError(.invalidRequest, "a batch has at least one request")) }
        if count > Self.maximumBatch {
            return refuse(
                WireError(.invalidRequest, "a batch has at most \(Self.maximumBatch) requests, this one has \(count)"))
        }
        let isLong = lineBytes > UserUsage.largeBytes
        unstartedBatch = BatchReply(Array(message.elements), lineBytes: isLong ? lineBytes : 0)
        startBatch()
        // Where too much is held, its requests that wait were refused: none of it is left.
        if isLong, unstartedBatch != nil { countHeldBytes() }
    }

    /// Starts the requests of a batch for which there is room and time, as if each had come on a line of its own.
    func startBatch() {
        startBatch(while: { self.isRoomForRequest && !self.loop.isTurnOver })
        if unstartedBatch != nil, isRoomForRequest { goOnLater() }
    }

    /// Starts what is left of a batch because the connection or the agent is at its end.
    func startRestOfBatch() { startBatch(while: { true }) }

    private func startBatch(while isRoom: () -> Bool) {
        guard let batch = unstartedBatch else { return }
        while isRoom(), let (request, place) = batch.next() { serve(request, in: place) }
        guard batch.isStarted else { return }
        unstartedBatch = nil
        if heldBytes > 0 { countHeldBytes() }
        writeIfComplete(batch)
    }

    /// Why a request of a batch is not carried out, where it had to wait too long or there is no room for its result.
    func refusal(inBatch batch: BatchReply, _ request: Request) -> WireError? {
        if isFinishing { return WireError(.shuttingDown, "the agent is stopping; ask again once it is back") }
        if request.id == nil { return nil }
        if batch.heldBytes > UserUsage.largeBytes, let error = refusalOfMore() { return error }
        return batch.isFull ? BatchReply.noRoom : nil
    }

    /// Writes the reply to a batch once all of it is known.
    func writeIfComplete(_ batch: BatchReply) {
        guard batch.isComplete, !isClosed else { return }
        batchBytes -= batch.countedBytes
        let (line, afterwards) = batch.finish()
        if let line { write(line) }
        if heldBytes > 0 { countHeldBytes() }
        for action in afterwards { action() }
    }

    // MARK: Replies

    /// Counts what a batch holds besides.
    func counting<Failure: Error>(
        _ batch: BatchReply, _ body: () throws(Failure) -> Void
    ) throws(Failure) {
        defer {
            batchBytes += batch.heldBytes - batch.countedBytes
            batch.countedBytes = batch.heldBytes
            // Nobody may ever take them: the last of its requests may wait for ever.
            if batch.heldBytes > UserUsage.largeBytes { countHeldBytes() }
        }
        try body()
    }

    /// Answers a read of a batch. What is large is not put into words before the rest of the batch is answered, which may
    /// take for ever, unless the document would be kept for a small part of it.
    func reply(id: RequestID?, _ result: ConfigGet.Result, in place: BatchSlot) {
        let bytes = result.value.withTextBytes { $0.count }
        guard let id, place.batch.isWaiting, bytes > UserUsage.largeBytes, result.value.documentMemory < 2 * bytes
        else {
            return reply(id: id, result, in: Optional(place))
        }
        counting(place.batch) {
            place.put(later: bytes + id.text.utf8.count) { writer in
                Envelope.writeResult(id: id, to: &writer) { result.write(to: &$0) }
            }
        }
    }
}
