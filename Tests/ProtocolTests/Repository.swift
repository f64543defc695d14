import Foundation
import TestSupport

/// Locates and reads files of this repository and the programs of this build.
enum Repository {
    /// The folder of the specification, with its schemas and transcripts.
    static let specification = Checkout.root.appending(path: "Protocol")

    /// The path of the agent under test: `LARDER_AGENT` if it is set, otherwise the agent in the directory of the test
    /// executable.
    static var agent: String {
        get throws {
            if let path = ProcessInfo.processInfo.environment["LARDER_AGENT"] { return path }
            let executable = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
            return URL(filePath: executable).deletingLastPathComponent().appending(path: "larderd").path
        }
    }

    /// Returns the names of the files in a folder of the specification that have the given extension. The names do not
    /// include the extension.
    static func names(in folder: String, extension wanted: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: specification.appending(path: folder).path)
            .filter { $0.hasSuffix(".\(wanted)") }
            .map { String($0.dropLast(wanted.count + 1)) }
            .sorted()
    }

    /// Reads a file of the specification.
    static func text(_ path: String) throws -> String {
        try String(contentsOf: specification.appending(path: path), encoding: .utf8)
    }

    /// Reads and parses a JSON file of the specification.
    static func json(_ path: String) throws -> [String: Any] {
        let data = try Data(contentsOf: specification.appending(path: path))
        guard let object = try JSONSerialization.jsonObject(with: data) as? [String: Any] else {
            throw CocoaError(.fileReadCorruptFile)
        }
        return object
    }
}
