package import Logging
package import NIOPosix

/// Threads for blocking work, shared by the tests of a process.
package enum SharedThreads {
    package static let pool = {
        let threads = NIOThreadPool(numberOfThreads: 2)
        threads.start()
        return threads
    }()
}

extension Logger {
    /// Discards all messages.
    package static let silent = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
}
