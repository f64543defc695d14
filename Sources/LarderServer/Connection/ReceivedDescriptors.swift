import LarderImages
import Synchronization

/// Descriptors that came with input, until the lines to which they may belong are served.
///
/// A descriptor comes with the first byte of a request's line. recvmsg(2) returns at most one, with bytes that may also hold
/// lines before and after that one. So a descriptor is kept for the lines that begin in the same input, and closed when the
/// last of them has been served. At most two are kept at once.
///
/// A class, because most connections never receive one: they have only an empty reference.
final class ReceivedDescriptors {
    /// What came with one input.
    enum Passed {
        case file(PassedInFile)
        /// More than one descriptor came.
        case several
        /// A descriptor came that could not be kept: a limit is reached.
        case lost
    }

    /// Came with the beginning of the line that was unfinished at the end of the last input.
    private var ofUnfinishedLine: Passed?
    /// Came with the input that is being served.
    private var ofInput: Passed?
    /// How many of this connection are open. They count as open files of the user.
    let openFiles: OpenFiles

    init(of usage: UserUsage) { openFiles = OpenFiles(of: usage) }

    /// Whether another one is received.
    var hasRoom: Bool { !openFiles.isFull }

    /// Adds what came with the input that is served next.
    func add(_ passed: Passed) { ofInput = passed }

    /// Takes what belongs to the line that is being served; nil if nothing came with it.
    func take() -> Passed? {
        defer {
            if ofUnfinishedLine == nil { ofInput = nil }
            ofUnfinishedLine = nil
        }
        return ofUnfinishedLine ?? ofInput
    }

    /// A line was served: what belongs to it is closed.
    func endLine() { ofUnfinishedLine = nil }

    /// All lines of an input were served.
    func endInput(hasUnfinishedLine: Bool) {
        // The first descriptor of a line counts, if more follow.
        ofUnfinishedLine = hasUnfinishedLine ? ofUnfinishedLine ?? ofInput : nil
        ofInput = nil
    }

    /// Closes all.
    func removeAll() { (ofUnfinishedLine, ofInput) = (nil, nil) }
}

/// How many descriptors that came over a connection are open. They count as open files of its user.
final class OpenFiles: Sendable {
    /// The maximum per connection, including descriptors that wait to be closed.
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
