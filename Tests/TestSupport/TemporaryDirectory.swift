import Foundation

/// A new directory that is removed, with its contents, when this object is released.
package final class TemporaryDirectory: Sendable {
    /// Short, because the path of a Unix socket has at most 107 bytes.
    package let path: String

    package init() throws {
        var template = Array("/tmp/larder-XXXXXX".utf8CString)
        guard let name = mkdtemp(&template) else { throw HarnessError.system("mkdtemp") }
        path = String(cString: name)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }
}

/// Runs `body` with the path of a new directory, which is removed afterwards.
package func withTemporaryDirectory<Result>(_ body: (String) throws -> Result) throws -> Result {
    let directory = try TemporaryDirectory()
    return try withExtendedLifetime(directory) { try body(directory.path) }
}

/// Runs `body` with the path of a new directory, which is removed afterwards.
package func withTemporaryDirectory<Result>(_ body: (String) async throws -> Result) async throws -> Result {
    let directory = try TemporaryDirectory()
    defer { withExtendedLifetime(directory) {} }
    return try await body(directory.path)
}
