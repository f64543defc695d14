import Foundation
import TestSupport

/// The programs under test: those built with the tests, beside the tests' own executable.
enum Products {
    /// The daemon, unless `LARDER_AGENT` names another, such as an installed one.
    static var agent: String { get throws { try path("larderd", "LARDER_AGENT") } }

    /// The command line, unless `LARDER_CLI` names another: as it is installed, which is the daemon under its other name.
    static var commandLine: String {
        get throws { try ProcessInfo.processInfo.environment["LARDER_CLI"] ?? otherName.get() }
    }

    /// The command line as a program of its own, for development.
    static var thinCommandLine: String { get throws { try path("larder", nil) } }

    /// A symbolic link to the daemon, in a directory that goes with the tests' process.
    private static let otherName = Result {
        var template = Array("/tmp/larder-names-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw HarnessError.system("mkdtemp") }
        directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        atexit { Products.removeOtherName() }
        // Tests start it as other users, too.
        guard chmod(directory, 0o755) == 0, symlink(try agent, directory + "/larder") == 0 else {
            throw HarnessError.system("symlink")
        }
        return directory + "/larder"
    }

    // Written before anybody can read it, by the initialisation of `otherName`, and at the process's end.
    nonisolated(unsafe) private static var directory = ""

    private static func removeOtherName() {
        unlink(directory + "/larder")
        rmdir(directory)
    }

    private static func path(_ name: String, _ variable: String?) throws -> String {
        if let variable, let path = ProcessInfo.processInfo.environment[variable] { return path }
        let executable = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        return URL(filePath: executable).deletingLastPathComponent().appending(path: name).path
    }
}
