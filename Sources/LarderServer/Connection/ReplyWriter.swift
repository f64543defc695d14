import LarderJSON
import LarderProtocol
import NIOCore

/// Writes the replies of a connection to the output buffer of its loop, or to the slot of a batch. The replies to all
/// requests of a time slice are sent with one system call.
///
/// The connections of a loop share the output buffer. Code must flush before it writes for another connection.
struct ReplyWriter {
    /// Bodies of events up to this size are copied into the output buffer. Larger ones are passed to the system call as a
    /// second buffer.
    fileprivate static let smallEventBytes = 4096

    /// Output of at least this size is sent before the next request is served.
    private static let largeOutputBytes = 64 * 1024

    /// The output of a connection. Only ``ReplyWriter`` changes it.
    struct State {
        fileprivate var outbound = OutboundQueue()
        /// The number of bytes of replies in incomplete batches.
        fileprivate var batchBytes = 0
    }

    let connection: Connection

    private var loop: LoopContext { connection.loop }

    /// Whether output waits until the socket has room.
    var isPending: Bool { connection.outputState.outbound.isPending }
    /// The number of bytes of the pending output.
    var pendingBytes: Int { connection.outputState.outbound.pendingBytes }
    /// The number of bytes of replies in incomplete batches.
    var batchBytes: Int { connection.outputState.batchBytes }
    /// The number of bytes that the socket has accepted.
    var acceptedBytes: Int { connection.outputState.outbound.acceptedBytes }

    // MARK: Replies

    func reply(id: RequestID?, _ error: WireError, in slot: BatchSlot?) {
        guard let id else {
            slot?.leaveEmpty()
            return
        }
        loop.traffic.requestErrors += 1
        write(id, in: slot) { writer in Envelope.writeError(id: id, error, to: &writer) }
    }

    func reply(id: RequestID?, _ result: any WireResult, in slot: BatchSlot?) {
        guard let id else {
            slot?.leaveEmpty()
            return
        }
        write(id, in: slot) { writer in Envelope.writeResult(id: id, to: &writer) { result.write(to: &$0) } }
    }

    /// Writes the error reply to a line that is not a valid request.
    func refuse(_ error: WireError) {
        loop.traffic.requestsTotal += 1
        reply(id: .null, error, in: nil)
    }

    /// Writes the result of a pending request, and the line of its batch if the batch is complete.
    func complete(_ request: PendingRequest, _ result: Result<any WireResult, WireError>) {
        let mark = loop.output.writer.mark
        switch request.denial.map({ .failure($0) }) ?? result {
        // If the replies of the batch have reached their size limit, an error replaces the result, because the client
        // can send the request again. The result of a committed change is small and always sent.
        case .success where request.lifetime == .connection && request.slot?.batch.isFull ?? false:
            reply(id: request.id, BatchReply.noRoom, in: request.slot)
        case .success(let value): reply(id: request.id, value, in: request.slot)
        case .failure(let error): reply(id: request.id, error, in: request.slot)
        }
        // A large reply to a request with the lifetime `committed` is a dry run or an error, so nothing was changed.
        if request.slot == nil { withholdIfOverLimit(request.id, from: mark) }
        if let batch = request.slot?.batch { finishIfComplete(batch) }
    }

    /// Writes the reply that `body` encodes. In a batch, an error replaces a large reply if too much is buffered for the
    /// user or for the batch.
    private func write(_ id: RequestID, in slot: BatchSlot?, _ body: (inout JSONWriter) -> Void) {
        if let slot {
            slot.put { writer in
                let mark = writer.mark
                body(&writer)
                guard writer.size(since: mark) > UserUsage.largeBytes,
                    let error = slot.batch.wasFull ? BatchReply.noRoom : connection.refusalOfLargeWork()
                else { return }
                writer.rewind(to: mark)
                Envelope.writeError(id: id, error, to: &writer)
            }
            return countReplies(of: slot.batch)
        }
        body(&loop.output.writer)
        loop.output.writer.endLine()
    }

    /// Counts the replies that a batch has gained. Large replies are charged to the user immediately, because they stay
    /// buffered until the last request of the batch has its reply, which may take arbitrarily long.
    private func countReplies(of batch: BatchReply) {
        connection.outputState.batchBytes += batch.chargedBytes - batch.countedBytes
        batch.countedBytes = batch.chargedBytes
        if batch.chargedBytes > UserUsage.largeBytes { connection.chargeBufferedBytes() }
    }

    /// Writes the line of a batch if the batch has all its replies.
    func finishIfComplete(_ batch: BatchReply) {
        guard batch.isComplete, connection.phase != .closed else { return }
        connection.outputState.batchBytes -= batch.countedBytes
        let (line, afterwards) = batch.finish()
        if let line { write(line) }
        if connection.usage.chargedBytes > 0 { connection.chargeBufferedBytes() }
        for action in afterwards { action() }
    }

    /// Replaces a reply with an error if the reply is large and too much is buffered for the user.
    /// - Parameter mark: the start of the reply in the output
    func withholdIfOverLimit(_ id: @autoclosure () -> RequestID?, from mark: JSONWriter.Mark) {
        guard loop.output.writer.size(since: mark) > UserUsage.largeBytes, let error = connection.refusalOfLargeWork()
        else {
            return
        }
        loop.output.writer.rewind(to: mark)
        reply(id: id(), error, in: nil)
    }

    /// Appends a line to the output. A small line is sent together with later output.
    private func write(_ line: [UInt8]) {
        if line.count > Self.largeOutputBytes {
            flush(then: ByteBuffer(bytes: line))
        } else {
            line.withUnsafeBytes { loop.output.writer.rawUnframed($0) }
        }
    }

    // MARK: Output

    /// Sends the output with one system call.
    func flush() {
        if !loop.output.writer.bytes.isEmpty { flush(then: nil) }
    }

    func flushIfLarge() {
        if loop.output.writer.bytes.count >= Self.largeOutputBytes { flush() }
    }

    /// Sends a descriptor with the next byte of output.
    /// - Returns: false if the connection is closed, possibly because the preceding flush failed
    func pass(_ file: PassedFile) -> Bool {
        flush()
        if connection.phase == .closed { return false }
        loop.output.file = file
        return true
    }

    /// Sends the buffered output and then `body`, whose bytes are not copied.
    func flush(then body: ByteBuffer?) {
        defer { loop.output.clear() }
        if connection.phase == .closed || connection.outputState.outbound.isBroken { return }
        let count = loop.output.writer.bytes.count + (body?.readableBytes ?? 0)
        loop.traffic.bytesSent += count
        if connection.outputState.outbound.isPending {
            connection.outputState.outbound.enqueue(loop.output.writer.bytes, passing: loop.output.file, then: body)
            return connection.chargeBufferedBytes()
        }
        let (writer, file) = (connection.writer, loop.output.file)
        let maySend =
            file == nil || connection.outputState.outbound.maySendDescriptor(unreadByPeer: writer.unreadByPeer)
        let result = maySend ? writer.write(loop.output.writer.bytes, passing: file, then: body) : .wouldBlock
        if case .complete = result.status {
            return connection.outputState.outbound.wroteAll(count, withDescriptor: file != nil)
        }
        if file != nil, result.isDescriptorRefused {
            loop.traffic.bytesSent -= count
            return flushWithoutDescriptor(then: body)
        }
        let action = connection.outputState.outbound.wrote(
            result, of: loop.output.writer.bytes, passing: file, then: body)
        connection.outputState.outbound.startProgress(unreadByPeer: writer.unreadByPeer, at: .now())
        connection.chargeBufferedBytes()
        perform(action)
    }

    /// Writes queued output. Called when the socket has room again, and after the delay of a retry.
    func resume() {
        guard connection.phase != .closed, connection.outputState.outbound.isPending else { return }
        let writer = connection.writer
        var action = OutboundQueue.Action.writeNext
        while case .writeNext = action, let piece = connection.outputState.outbound.nextPiece {
            let maySend =
                piece.file == nil
                || connection.outputState.outbound.maySendDescriptor(unreadByPeer: writer.unreadByPeer)
            let result =
                maySend ? piece.bytes.withUnsafeReadableBytes { writer.write($0, passing: piece.file) } : .wouldBlock
            if piece.file != nil, result.isDescriptorRefused {
                connection.outputState.outbound.replaceNext(refusal(replacing: Array(buffer: piece.bytes)))
            } else {
                action = connection.outputState.outbound.wroteNext(result)
            }
        }
        perform(action)
    }

    /// Sends the output after the kernel has refused its descriptor.
    private func flushWithoutDescriptor(then body: ByteBuffer?) {
        let bytes = refusal(replacing: loop.output.writer.bytes)
        loop.output.clear()
        bytes.withUnsafeBytes { loop.output.writer.rawUnframed($0) }
        flush(then: body)
    }

    /// Replaces the first line of the output, a reply with a descriptor, with an error. Otherwise the client would wait
    /// until clients that do not read have received their descriptors.
    private func refusal(replacing output: [UInt8]) -> [UInt8] {
        let end = output.firstIndex(of: UInt8(ascii: "\n")) ?? output.endIndex
        guard let reply = try? JSONValue(parsing: Array(output[..<end])), let id = reply["id"].flatMap(RequestID.init)
        else { return output }
        if let lease = reply["result"]?["lease"]?.int { connection.endLease(lease) }
        loop.traffic.refused.requests += 1
        loop.traffic.requestErrors += 1
        var writer = JSONWriter()
        Envelope.writeError(
            id: id,
            WireError(
                .limitExceeded,
                "too many descriptors are in transit to clients that do not read; retry later, or use a method that needs "
                    + "no descriptor"), to: &writer)
        return writer.bytes + output[end...]
    }

    /// Drops pending output, because the connection closes.
    func close() { connection.outputState.outbound.removeAll() }

    // MARK: Stalls

    /// Records that the ``StallMonitor`` monitors the connection.
    /// - Returns: false if it did before
    func beginMonitoring() -> Bool {
        defer { connection.outputState.outbound.isMonitored = true }
        return !connection.outputState.outbound.isMonitored
    }

    /// Records whether the ``StallMonitor`` continues to monitor the connection: it does while output is pending.
    /// - Returns: whether output is pending
    func continueMonitoring() -> Bool {
        connection.outputState.outbound.isMonitored = connection.outputState.outbound.isPending
        return connection.outputState.outbound.isPending
    }

    /// The time since the client last accepted output; nil if no output is pending.
    func stalledTime(at now: NIODeadline) -> TimeAmount? {
        let writer = connection.writer
        return connection.outputState.outbound.stalledTime(at: now, unreadByPeer: writer.unreadByPeer)
    }

    private func perform(_ action: OutboundQueue.Action) {
        switch action {
        case .none, .writeNext: break
        case .waitUntilWritable:
            connection.waitUntilWritable(true)
            connection.outputWaits()
        case .retry(let delay):
            connection.waitUntilWritable(false)
            loop.eventLoop.assumeIsolated().scheduleTask(in: delay) { [connection] in connection.output.resume() }
            connection.outputWaits()
        case .drained:
            connection.waitUntilWritable(false)
            connection.outputDrained()
        case .hangUpLater:
            connection.waitUntilWritable(false)
            loop.eventLoop.assumeIsolated().execute { [connection] in connection.hangUp() }
        }
    }
}

extension Connection {
    /// Writes an event of a subscription. A method of the connection takes 4 % fewer instructions than one of
    /// ``ReplyWriter``.
    func writeEvent(_ body: ByteBuffer, of subscription: Int, sequence: Int, skipped: Int = 0) {
        let isSmall = body.readableBytes <= ReplyWriter.smallEventBytes
        body.withUnsafeReadableBytes { bytes in
            ConfigEvent.append(
                subscription: subscription, sequence: sequence, skipped: skipped,
                body: isSmall ? bytes : UnsafeRawBufferPointer(start: nil, count: 0),
                to: &loop.output.writer)
        }
        if isSmall {
            output.flush()
        } else {
            output.flush(then: body)
        }
    }
}
