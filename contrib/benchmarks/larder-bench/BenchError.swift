import Glibc

/// Why a measurement failed or is invalid.
struct BenchError: Error, Sendable, CustomStringConvertible {
    /// A description of the failure and advice, in one line.
    let description: String

    init(_ description: String) { self.description = description }

    /// The failure of a system call, with the text for its `errno`.
    static func system(_ call: String, errno number: Int32 = errno) -> BenchError {
        BenchError("\(call): \(String(cString: strerror(number)))")
    }
}
