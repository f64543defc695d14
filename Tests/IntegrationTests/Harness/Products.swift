import Foundation
import TestSupport

/// The paths of the programs under test. They are built with the tests and are in the directory of the test executable.
enum Products {
    /// The daemon. The environment variable `LARDER_AGENT` overrides the path, for example with that of an installed
    /// daemon.
    static var agent: String { get throws { try path("larderd", "LARDER_AGENT") } }

    /// The command line as the package installs it: a link `larder` to the daemon. The environment variable
    /// `LARDER_CLI` overrides the path.
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
        // All users can enter the directory, because some tests run the link as another user.
        guard chmod(directory, 0o755) == 0, symlink(try agent, directory + "/larder") == 0 else {
            throw HarnessError.system("symlink")
        }
        return directory + "/larder"
    }

    // This path is written once, by the initializer of `commandLineLink`, and read only by the exit handler that the
    // initializer registers.
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
