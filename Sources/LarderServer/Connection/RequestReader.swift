import LarderProtocol
import NIOCore

/// Decides what a connection reads next, and splits its input into lines. It performs no I/O.
///
/// The connection performs ``nextAction(isGateOpen:)``, reports the outcome and repeats. The gate is open while the
/// connection may start a request. It is closed while output is pending, while a batch waits, while too many requests
/// are pending, and when the connection ends.
struct RequestReader {
    /// The next step.
    enum Action: Equatable {
        /// Wait for a socket event, or until the gate opens.
        case wait
        /// Read from the socket.
        case read(maxBytes: Int)
        /// Serve the input in ``backlog``.
        case serveBacklog
        /// Serve the last line, which need not have a line end.
        case serveLastLine
        /// Continue after the other connections of the loop have been served.
        case deferRest
        /// Close the connection: the peer has disconnected, and its input was served as far as possible without
        /// waiting.
        case close
    }

    private enum Peer { case open, halfClosed, hungUp }
    private enum Input { case open, ended, finished }
    /// The steps that must wait until the other connections of the loop have been served: none, only reading, or every
    /// step.
    private enum Deferral { case nothing, reading, everything }

    /// The maximum number of bytes of one read, except within a long line. This maximum also limits how much input one
    /// time slice serves.
    static let sliceBytes = 8 * 1024
    /// The size of the read buffer, and the maximum size of a read within a long line.
    static let bufferBytes = 64 * 1024

    private var framer: LineFramer
    /// Input that was read but not served, because the gate closed or the time slice ended.
    private(set) var backlog: ByteBuffer?
    /// Whether the socket may have more input. The kernel reports each arrival only once (`EPOLLET`), so the reader
    /// must remember the report.
    private var isReadable = true
    private var peer = Peer.open
    private var input = Input.open
    private var deferral = Deferral.nothing
    /// Whether ``Action/deferRest`` was performed and the deferred work has not run yet.
    private(set) var isResumeScheduled = false
    /// Whether lines are being served. A request that completes during that time does not resume reading.
    var isServing = false
    /// The descriptors that arrived with the input; nil until the first one arrives.
    private(set) var descriptors: ReceivedDescriptors?
    /// If the line that is being served was assembled from several reads, the number of its bytes that were buffered;
    /// otherwise 0.
    private var servedBytes = 0

    init(maximumLineBytes: Int) { framer = LineFramer(maximumLineBytes: maximumLineBytes) }

    /// The number of buffered bytes of a line that arrived in pieces and is incomplete or being served.
    var pendingBytes: Int { framer.pendingBytes + servedBytes }

    /// Whether all input has been served.
    var isFinished: Bool { input == .finished }

    /// Whether the incomplete line has at least the size of an ordinary read.
    private var isLineLong: Bool { framer.pendingBytes >= Self.sliceBytes }

    /// The next step. Inlined, because a call would copy the struct and retain its references.
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
        return peer == .hungUp ? .close : .wait
    }

    // MARK: Events

    /// Records that the socket has input, or that its input has ended.
    mutating func socketBecameReady() {
        isReadable = true
        deferral = .nothing
    }

    /// Defers reading if a long line is incomplete, so that clients with short requests are served first.
    mutating func deferLongLine() {
        if isLineLong { deferral = .everything }
    }

    /// Records that the peer has shut down its sending side. The remaining input is read to its end.
    mutating func peerHalfClosed() {
        if peer == .open { peer = .halfClosed }
    }

    /// Records that the peer has disconnected. Its last line is served even without a line end.
    /// - Parameter isSliceOver: whether to serve other connections first
    mutating func peerHungUp(isSliceOver: Bool) {
        isReadable = true
        peer = .hungUp
        deferral = isSliceOver ? .everything : .nothing
    }

    /// Records that input was read, and that its lines were served as far as possible.
    /// - Parameter mayHaveMore: whether the socket may have more input now, because the read filled the buffer or ended
    ///   at a descriptor
    mutating func didRead(mayHaveMore: Bool) {
        if mayHaveMore { deferral = .everything } else { isReadable = peer != .open }
    }

    /// Records that the read was interrupted, or failed with ECONNRESET. The read is repeated later. ECONNRESET means
    /// only that the client left output unread; further reads return the remaining input.
    mutating func readWasInterrupted() { deferral = .everything }

    mutating func socketIsEmpty() { isReadable = false }

    /// Records that the end of the input was reached.
    mutating func inputEnded() { input = .ended }

    /// Records that ``Action/deferRest`` was performed.
    mutating func resumeScheduled() {
        isResumeScheduled = true
        deferral = .nothing
    }

    /// Records that the deferred work starts.
    mutating func resumed() {
        isResumeScheduled = false
        deferral = .nothing
    }

    /// Records that the gate has opened, so that requests that have been received may be started. More input is read
    /// only after other connections have been served.
    mutating func gateOpened() { deferral = .reading }

    // MARK: Lines

    /// The next line in the input; nil if the rest of the input does not complete a line. The rest is then buffered.
    mutating func nextLine(in bytes: UnsafeRawBufferPointer, at offset: inout Int) -> LineFramer.Line? {
        let pending = framer.pendingBytes
        let line = framer.next(in: bytes, at: &offset)
        if case .assembled = line { servedBytes = pending }
        return line
    }

    /// The bytes after the last line end of the input; nil if the input ended with a line end.
    mutating func takeLastLine() -> LineFramer.Line? {
        input = .finished
        let pending = framer.pendingBytes
        let line = framer.finish()
        if case .assembled = line { servedBytes = pending }
        return line
    }

    /// Records that an assembled line was served. The memory of the line is reused.
    mutating func didServe(_ line: consuming [UInt8]) {
        servedBytes = 0
        framer.reuse(line)
    }

    /// Keeps input that cannot be served now.
    /// - Parameter isGateOpen: true if the input waits only until other connections have been served; false if it waits
    ///   for the gate
    mutating func keep(_ rest: ByteBuffer, isGateOpen: Bool) {
        backlog = rest
        if isGateOpen { deferral = .everything }
    }

    mutating func takeBacklog() -> ByteBuffer? {
        defer { backlog = nil }
        return backlog
    }

    /// Drops the incomplete line, including the bytes of it that have not arrived yet.
    mutating func dropUnfinishedLine() { framer.dropUnfinishedLine() }

    /// Returns ``descriptors``, and creates them if necessary.
    /// - Parameter usage: the user to whom the descriptors are charged as open files
    mutating func descriptors(of usage: UserUsage) -> ReceivedDescriptors {
        let descriptors = descriptors ?? ReceivedDescriptors(of: usage)
        self.descriptors = descriptors
        return descriptors
    }

    /// Closes descriptors that no later line can take, once all complete lines of the input have been served. Does
    /// nothing while a part of the input is in ``backlog``.
    @inline(__always)
    func endInputOfDescriptors() {
        guard let descriptors, backlog == nil else { return }
        descriptors.endInput(hasUnfinishedLine: framer.pendingBytes > 0)
    }

    /// Drops input that was not served, and received descriptors, because the connection ends.
    mutating func stop() {
        backlog = nil
        descriptors?.removeAll()
    }
}
