import Foundation
import TestSupport

/// The paths of the programs under test. They are built with the tests and are in the directory of the test executable.
enum Products {
    /// The daemon. `LARDER_AGENT` overrides it, for example with an installed one.
    static var agent: String { get throws { try path("larderd", "LARDER_AGENT") } }

    /// The command line as the package installs it: a link `larder` to the daemon. `LARDER_CLI` overrides it.
    static var commandLine: String {
        get throws { try ProcessInfo.processInfo.environment["LARDER_CLI"] ?? commandLineLink.get() }
    }

    /// The separate command-line program, which development builds use.
    static var thinCommandLine: String { get throws { try path("larder", nil) } }

    /// A symbolic link to the daemon, in a directory that is removed when the test process exits.
    private static let commandLineLink = Result {
        var template = Array("/tmp/larder-names-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw HarnessError.system("mkdtemp") }
        directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        atexit { Products.removeCommandLineLink() }
        // Some tests run the link as another user.
        guard chmod(directory, 0o755) == 0, symlink(try agent, directory + "/larder") == 0 else {
            throw HarnessError.system("symlink")
        }
        return directory + "/larder"
    }

    // Written once, by the initializer of `commandLineLink`. Read only by the exit handler that the initializer
    // registers.
    nonisolated(unsafe) private static var directory = ""

    private static func removeCommandLineLink() {
        unlink(directory + "/larder")
        rmdir(directory)
    }

    private static func path(_ name: String, _ variable: String?) throws -> String {
        if let variable, let path = ProcessInfo.processInfo.environment[variable] { return path }
        let executable = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        return URL(filePath: executable).deletingLastPathComponent().appending(path: name).path
    }
}
