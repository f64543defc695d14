import LarderProtocol
import NIOCore

/// Decides what a connection reads next, and where its lines end. It performs no I/O.
///
/// The connection is served one step at a time: it performs ``nextAction(isGateOpen:)``, reports the outcome and asks
/// again. The gate is open while the connection may start a request: it is closed while output is pending, while a batch
/// waits, while too many requests are pending, and when the connection ends.
struct RequestReader {
    /// The next step.
    enum Action: Equatable {
        /// Wait for an event of the socket, or until the gate opens.
        case wait
        /// Read from the socket.
        case read(maxBytes: Int)
        /// Serve the input that is kept in ``backlog``.
        case serveBacklog
        /// Serve the last line, which needs no line end.
        case serveLastLine
        /// Continue after the other connections of the loop were served.
        case deferRest
        /// Close the connection: the peer is gone and its input was served as far as possible without waiting.
        case close
    }

    private enum Peer { case open, halfClosed, gone }
    private enum Input { case open, ended, finished }
    /// The steps that wait until the other connections of the loop were served.
    private enum Deferral { case nothing, reading, everything }

    /// The most bytes of short lines that are read at once: so many of them are served in one time slice at most.
    static let sliceBytes = 8 * 1024
    /// The size of the buffer to read into.
    static let bufferBytes = 64 * 1024

    private var framer: LineFramer
    /// Input that was read and is not served, because the gate closed or the time slice ended.
    private(set) var backlog: ByteBuffer?
    /// Whether the socket may have more than was read: the kernel reports an arrival once.
    private var isReadable = true
    private var peer = Peer.open
    private var input = Input.open
    private var deferral = Deferral.nothing
    /// Whether ``Action/deferRest`` was performed and its work is still to come.
    private(set) var isResumeScheduled = false
    /// Whether lines are being served. A request that is completed meanwhile does not continue the input.
    var isServing = false
    /// Descriptors that came with the input; nil as long as none came.
    private(set) var descriptors: ReceivedDescriptors?
    /// Bytes of the assembled line that is being served. They count until it was served.
    private var servedBytes = 0

    init(maximumLineBytes: Int) { framer = LineFramer(maximumLineBytes: maximumLineBytes) }

    /// Bytes of a line that is unfinished or being served and did not arrive whole.
    var pendingBytes: Int { framer.pendingBytes + servedBytes }

    /// Whether all input was served.
    var isFinished: Bool { input == .finished }

    /// An unfinished line is longer than is read at once of others. No part of it is served before its end arrives.
    private var isLineLong: Bool { framer.pendingBytes >= Self.sliceBytes }

    /// The next step. Inlined, because a call would copy the struct and count its references.
    @inline(__always)
    func nextAction(isGateOpen: Bool) -> Action {
        if isResumeScheduled || isServing { return .wait }
        if deferral == .everything { return .deferRest }
        if isGateOpen {
            if backlog != nil { return .serveBacklog }
            if input == .ended { return .serveLastLine }
            if input == .open, isReadable {
                if deferral == .reading { return .deferRest }
                return .read(maxBytes: isLineLong ? Self.bufferBytes : Self.sliceBytes)
            }
        }
        return peer == .gone ? .close : .wait
    }

    // MARK: Events

    /// The socket has bytes, or its end.
    mutating func socketBecameReady() {
        isReadable = true
        deferral = .nothing
    }

    /// Serves a client with an unfinished long line after the clients with short requests.
    mutating func deferLongLine() {
        if isLineLong { deferral = .everything }
    }

    /// The peer has shut down its sending side. The rest is read to its end.
    mutating func peerHalfClosed() {
        if peer == .open { peer = .halfClosed }
    }

    /// The peer is gone. Its last line counts without a line end.
    /// - Parameter isSliceOver: whether connections whose peers are there are served first.
    mutating func peerHungUp(isSliceOver: Bool) {
        isReadable = true
        peer = .gone
        deferral = isSliceOver ? .everything : .nothing
    }

    /// Bytes were read and their lines served.
    /// - Parameter mayHaveMore: whether the buffer was filled or a descriptor came, at which the kernel cuts the bytes.
    mutating func didRead(mayHaveMore: Bool) {
        if mayHaveMore { deferral = .everything } else { isReadable = peer != .open }
    }

    /// The read was interrupted, or reported that the client left output unread, which comes before the end of its input.
    mutating func readWasInterrupted() { deferral = .everything }

    /// The socket is empty.
    mutating func socketIsEmpty() { isReadable = false }

    /// The peer will send nothing more.
    mutating func inputEnded() { input = .ended }

    /// ``Action/deferRest`` was performed.
    mutating func resumeScheduled() {
        isResumeScheduled = true
        deferral = .nothing
    }

    /// The deferred work begins.
    mutating func resumed() {
        isResumeScheduled = false
        deferral = .nothing
    }

    /// Requests that waited may be started. More is read after the other connections were served.
    mutating func gateOpened() { deferral = .reading }

    // MARK: Lines

    /// The next line in the input; nil if the rest of the input completes none. The rest is then held.
    mutating func nextLine(in bytes: UnsafeRawBufferPointer, at offset: inout Int) -> LineFramer.Line? {
        let pending = framer.pendingBytes
        let line = framer.next(in: bytes, at: &offset)
        if case .assembled = line { servedBytes = pending }
        return line
    }

    /// The line without a line end at the end of the input; nil if there is none.
    mutating func takeLastLine() -> LineFramer.Line? {
        input = .finished
        let pending = framer.pendingBytes
        let line = framer.finish()
        if case .assembled = line { servedBytes = pending }
        return line
    }

    /// An assembled line was served.
    mutating func didServe(_ line: consuming [UInt8]) {
        servedBytes = 0
        framer.reuse(line)
    }

    /// Keeps input that cannot be served now.
    /// - Parameter isGateOpen: whether it only waits until the other connections were served.
    mutating func keep(_ rest: ByteBuffer, isGateOpen: Bool) {
        backlog = rest
        if isGateOpen { deferral = .everything }
    }

    mutating func takeBacklog() -> ByteBuffer? {
        defer { backlog = nil }
        return backlog
    }

    /// Drops the unfinished line and the bytes of it that are still to come.
    mutating func dropUnfinishedLine() { framer.dropUnfinishedLine() }

    /// Where to keep a descriptor that came.
    /// - Parameter usage: of the user whose open files they count as
    mutating func descriptors(of usage: UserUsage) -> ReceivedDescriptors {
        let descriptors = descriptors ?? ReceivedDescriptors(of: usage)
        self.descriptors = descriptors
        return descriptors
    }

    /// All lines that end in the input were served, unless the rest is kept: closes descriptors to which no line is left.
    @inline(__always)
    func endInputOfDescriptors() {
        guard let descriptors, backlog == nil else { return }
        descriptors.endInput(hasUnfinishedLine: framer.pendingBytes > 0)
    }

    /// Drops input that was not served, because the connection ends.
    mutating func stop() {
        backlog = nil
        descriptors?.removeAll()
    }
}
