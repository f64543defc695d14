import Foundation
import TestSupport

/// The result of a finished script of this repository.
struct Script {
    /// The exit status, or the negated signal number if a signal ended the script.
    let status: Int32
    /// The text on standard output and standard error.
    let output: String

    /// Runs an interpreter in the root of the repository and waits until it ends. Its output goes to a file, because a
    /// full pipe would block the script.
    static func run(_ interpreter: String, _ arguments: [String]) async throws -> Script {
        let log = FileManager.default.temporaryDirectory.appending(path: "larder-script-\(UUID().uuidString)")
        guard FileManager.default.createFile(atPath: log.path, contents: nil) else {
            throw CocoaError(.fileWriteUnknown)
        }
        defer { try? FileManager.default.removeItem(at: log) }
        let output = try FileHandle(forWritingTo: log)
        defer { try? output.close() }
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [interpreter] + arguments
        process.currentDirectoryURL = Checkout.root
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = output
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            process.terminationHandler = { _ in continuation.resume() }
            do { try process.run() } catch {
                process.terminationHandler = nil
                continuation.resume(throwing: error)
            }
        }
        let status = process.terminationStatus
        return Script(
            status: process.terminationReason == .exit ? status : -status,
            output: try String(contentsOf: log, encoding: .utf8))
    }
}
