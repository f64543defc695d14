import Foundation

/// The programs under test: those built with the tests, beside the tests' own executable.
enum Products {
    /// The daemon, unless `LARDER_AGENT` names another, such as an installed one.
    static var agent: String { get throws { try path("larderd", "LARDER_AGENT") } }

    /// The command line, unless `LARDER_CLI` names another.
    static var commandLine: String { get throws { try path("larder", "LARDER_CLI") } }

    private static func path(_ name: String, _ variable: String) throws -> String {
        if let path = ProcessInfo.processInfo.environment[variable] { return path }
        let executable = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        return URL(filePath: executable).deletingLastPathComponent().appending(path: name).path
    }
}
