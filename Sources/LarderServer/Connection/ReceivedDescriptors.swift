import LarderImages
import Synchronization

/// Keeps descriptors that arrived with input until the lines that they may belong to have been served.
///
/// A client sends a descriptor with the first byte of a request. recvmsg(2) returns at most one descriptor, with bytes
/// that may also include earlier and later lines. A descriptor is therefore kept for all lines that begin in the same
/// input, and closed when the last of them has been served. At most two are kept at a time.
///
/// This is a class because most connections never receive a descriptor and need only an empty reference.
final class ReceivedDescriptors {
    /// A descriptor that arrived with one read of input.
    enum Passed {
        case file(PassedInFile)
        /// More than one descriptor arrived.
        case several
        /// A descriptor arrived but was not kept, because a limit was reached.
        case lost
    }

    /// Arrived with the beginning of the line that was incomplete at the end of the previous input.
    private var ofUnfinishedLine: Passed?
    /// Arrived with the input that is being served.
    private var ofInput: Passed?
    /// The number of open descriptors of this connection. They are charged to the user as open files.
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

    /// Ends a line that was served. Its descriptor is closed if the request did not take it.
    func endLine() { ofUnfinishedLine = nil }

    /// Ends an input whose complete lines have all been served.
    func endInput(hasUnfinishedLine: Bool) {
        // If several descriptors arrive with one line, the first one counts.
        ofUnfinishedLine = hasUnfinishedLine ? ofUnfinishedLine ?? ofInput : nil
        ofInput = nil
    }

    func removeAll() { (ofUnfinishedLine, ofInput) = (nil, nil) }
}

/// The number of open descriptors received over a connection. They are charged to the user as open files.
final class OpenFiles: Sendable {
    /// The maximum number per connection, including descriptors that wait to be closed.
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
