import LarderImages
import Synchronization

/// Keeps descriptors that arrived with input until the lines that they may belong to have been served.
///
/// A client sends a descriptor with the first byte of a request. recvmsg(2) returns at most one descriptor, with bytes
/// that may also include earlier and later lines. A descriptor is therefore kept for all lines that begin in the same
/// input, and closed when the last of them has been served. At most two are kept at a time.
///
/// This is a class because most connections never receive a descriptor, and a nil reference is small.
final class ReceivedDescriptors {
    /// A descriptor that arrived with one read of input.
    enum Passed {
        case file(PassedInFile)
        /// More than one descriptor arrived.
        case several
        /// A descriptor arrived but was not kept, because a limit was reached.
        case lost
    }

    /// The descriptor that arrived with the beginning of a line, if the previous input ended within that line.
    private var ofUnfinishedLine: Passed?
    /// The descriptor that arrived with the input that is being served.
    private var ofInput: Passed?
    /// Counts the open descriptors of this connection, and charges them to the user as open files.
    let openFiles: OpenFiles

    init(of usage: UserUsage) { openFiles = OpenFiles(of: usage) }

    /// Whether another descriptor may be received.
    var hasRoom: Bool { !openFiles.isFull }

    /// Adds the descriptor of the input that is served next.
    func add(_ passed: Passed) { ofInput = passed }

    /// Removes and returns the descriptor of the line that is being served; nil if none arrived with it.
    func take() -> Passed? {
        defer {
            if ofUnfinishedLine == nil { ofInput = nil }
            ofUnfinishedLine = nil
        }
        return ofUnfinishedLine ?? ofInput
    }

    /// Called after a line was served. Closes the descriptor of a line that began in earlier input, unless a request
    /// took it.
    func endLine() { ofUnfinishedLine = nil }

    /// Called after all complete lines of an input were served. Closes descriptors that no request took, except the one
    /// of an unfinished line.
    func endInput(hasUnfinishedLine: Bool) {
        // If several descriptors arrive with one line, the first one counts.
        ofUnfinishedLine = hasUnfinishedLine ? ofUnfinishedLine ?? ofInput : nil
        ofInput = nil
    }

    func removeAll() { (ofUnfinishedLine, ofInput) = (nil, nil) }
}

/// Counts the open descriptors that were received over a connection, and charges them to the user as open files.
final class OpenFiles: Sendable {
    /// The maximum number of received descriptors that are open per connection, including those that wait to be closed.
    private static let limit = 4

    private let usage: UserUsage
    private let count = Atomic(0)

    init(of usage: UserUsage) { self.usage = usage }

    var isFull: Bool { count.load(ordering: .relaxed) >= Self.limit }

    func add() {
        count.add(1, ordering: .relaxed)
        usage.addFile()
    }

    func remove() {
        count.subtract(1, ordering: .relaxed)
        usage.removeFile()
    }
}
