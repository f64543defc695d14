import Foundation
import TestSupport
import Testing

/// Runs one test of this bundle again in a process that another command starts. Tests use it for properties of a whole
/// process, such as passed descriptors or a mount namespace.
///
/// The test distinguishes the two runs with ``isInside``.
struct Rerun {
    /// The environment variable that marks the inner run.
    private static let marker = "LARDER_TEST_RERUN"

    /// Whether this process is the inner run.
    static var isInside: Bool { ProcessInfo.processInfo.environment[marker] != nil }

    private let process = Process()
    private let output = Pipe()

    /// Starts `command`. Its additional arguments are the command line of this test program, restricted to the tests
    /// that match `filter`.
    ///
    /// - Parameter passing: returns the arguments that make `command` pass an environment variable, given as
    ///   `NAME=VALUE`, to its program. Needed only for commands that clear the environment
    init(_ filter: String, through command: [String], passing: (String) -> [String] = { _ in [] }) throws {
        let runner = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        // The sanitizer options of this process must apply to the inner run, too.
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

    /// Reads the output of the process until it contains a text. Returns false if the output ends first.
    func waitForOutput(_ text: String) -> Bool {
        var seen = Data()
        while true {
            let more = output.fileHandleForReading.availableData
            if more.isEmpty { return false }
            seen += more
            if String(decoding: seen, as: UTF8.self).contains(text) { return true }
        }
    }

    /// Waits until the inner run ends. Returns whether it ran exactly one test and succeeded, and the rest of its
    /// output.
    func finish() -> (passed: Bool, output: String) {
        let rest = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return (process.terminationStatus == 0 && rest.contains("Test run with 1 test"), rest)
    }

    /// Runs one test again in a process to which sockets are passed as systemd does, and expects it to succeed.
    ///
    /// - Parameter names: the names of the sockets, separated by colons
    static func expectSuccess(of test: String, passing sockets: [Descriptor], names: String) throws {
        let runner = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let variables = [marker: "1", "LISTEN_FDS": "\(sockets.count)", "LISTEN_FDNAMES": names]
        // LISTEN_PID must be the pid of the process, which is not known yet. A shell sets it and then becomes that
        // process.
        let process = try withExtendedLifetime(sockets) {
            try ChildProcess(
                "sh",
                [
                    "-c", #"LISTEN_PID=$$ exec "$0" "$@""#, runner, "--testing-library", "swift-testing", "--filter",
                    test,
                ],
                environment: ChildProcess.environment.merging(variables) { $1 }, passing: sockets.map(\.number))
        }
        let result = try process.finish()
        #expect(result.end == .exit(0) && (result.text + result.log).contains("Test run with 1 test"), "\(result)")
    }

    /// Whether a command can be run on this machine and succeeds.
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
