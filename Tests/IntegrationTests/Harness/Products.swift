import Foundation
import TestSupport

/// The paths of the programs under test. They are built with the tests and are in the directory of the test executable.
enum Products {
    /// The daemon. The environment variable `LARDER_AGENT` overrides the path, for example with that of an installed
    /// daemon.
    static var agent: String {
        get throws { try ProcessInfo.processInfo.environment["LARDER_AGENT"] ?? publicAgent.get() }
    }

    /// The command line as the package installs it: a link `larder` to the daemon. The environment variable
    /// `LARDER_CLI` overrides the path.
    static var commandLine: String {
        get throws { try ProcessInfo.processInfo.environment["LARDER_CLI"] ?? commandLineLink.get() }
    }

    /// The separate command-line program, which development builds use.
    static var thinCommandLine: String { get throws { try path("larder") } }

    /// The daemon in a directory that all users can enter, because tests run it as other users, and the checkout may be
    /// in the home of root. The directory is removed when the test process exits.
    private static let publicAgent = Result {
        var template = Array("/tmp/larder-programs-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { throw HarnessError.system("mkdtemp") }
        directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        atexit { Products.removeDirectory() }
        guard chmod(directory, 0o755) == 0 else { throw HarnessError.system("chmod") }
        let (program, agent) = (try path("larderd"), directory + "/larderd")
        // A hard link, or a copy if the checkout is in another file system.
        if link(program, agent) != 0 { try FileManager.default.copyItem(atPath: program, toPath: agent) }
        return agent
    }

    /// A symbolic link to the daemon.
    private static let commandLineLink = Result {
        _ = try publicAgent.get()
        guard symlink(try agent, directory + "/larder") == 0 else { throw HarnessError.system("symlink") }
        return directory + "/larder"
    }

    // This path is written once, by the initializer of `publicAgent`, and read only afterwards.
    nonisolated(unsafe) private static var directory = ""

    private static func removeDirectory() {
        for name in ["larder", "larderd"] { unlink(directory + "/" + name) }
        rmdir(directory)
    }

    private static func path(_ name: String) throws -> String {
        let executable = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        return URL(filePath: executable).deletingLastPathComponent().appending(path: name).path
    }
}
