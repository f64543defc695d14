import Foundation

/// Runs one test of this bundle once more, in a process that another command starts: what must be true of a whole
/// process (passed descriptors, a mount namespace) can be had in no other way.
///
/// The test asks ``isInside`` which of the two it is.
struct Rerun {
    /// The variable that tells the inner run from the outer one.
    private static let marker = "LARDER_TEST_RERUN"

    /// Whether this process is the inner run.
    static var isInside: Bool { ProcessInfo.processInfo.environment[marker] != nil }

    private let process = Process()
    private let output = Pipe()

    /// Starts `command`, whose last arguments run the tests that match `filter`.
    ///
    /// - Parameter passing: The words of the command that pass on an assignment, `NAME=VALUE`, for those that clear the
    ///   environment; by default it is inherited.
    init(_ filter: String, through command: [String], passing: (String) -> [String] = { _ in [] }) throws {
        let runner = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        // What sanitizers are told counts for both runs.
        let sanitizers = ProcessInfo.processInfo.environment.filter { name, _ in name.hasSuffix("SAN_OPTIONS") }
        let assignments = ["\(Rerun.marker)=1"] + sanitizers.map { "\($0)=\($1)" }
        process.arguments =
            command + assignments.flatMap(passing) + [runner, "--testing-library", "swift-testing", "--filter", filter]
        process.environment = ProcessInfo.processInfo.environment.merging([Rerun.marker: "1"]) { $1 }
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = output
        try process.run()
    }

    /// Reads the process's output until it contains a text. False when it ends before.
    func waitForOutput(_ text: String) -> Bool {
        var seen = Data()
        while true {
            let more = output.fileHandleForReading.availableData
            if more.isEmpty { return false }
            seen += more
            if String(decoding: seen, as: UTF8.self).contains(text) { return true }
        }
    }

    /// Whether the inner run found its one test and passed it, and the rest of its output.
    func finish() -> (passed: Bool, output: String) {
        let rest = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return (process.terminationStatus == 0 && rest.contains("Test run with 1 test"), rest)
    }

    /// Whether a command runs and succeeds here.
    static func succeeds(_ command: [String]) -> Bool {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = command
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return false }
        process.waitUntilExit()
        return process.terminationStatus == 0
    }
}
