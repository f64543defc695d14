import Foundation

/// Where the files of this repository and the products of this build are.
enum Repository {
    /// The root of the working copy that these tests were compiled from.
    static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// The folder with the specification and everything that belongs to it.
    static let specification = root.appending(path: "Protocol")

    /// The agent under test: the one built with these tests, beside the test executable, unless `LARDER_AGENT` names
    /// another, such as an installed one.
    static var agent: String {
        get throws {
            if let path = ProcessInfo.processInfo.environment["LARDER_AGENT"] { return path }
            let executable = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
            return URL(filePath: executable).deletingLastPathComponent().appending(path: "larderd").path
        }
    }

    /// The names, without extension, of the files in a folder of the specification that have the extension.
    static func names(in folder: String, extension wanted: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: specification.appending(path: folder).path)
            .filter { $0.hasSuffix(".\(wanted)") }
            .map { String($0.dropLast(wanted.count + 1)) }
            .sorted()
    }

    /// The text of a file of the specification.
    static func text(_ path: String) throws -> String {
        try String(contentsOf: specification.appending(path: path), encoding: .utf8)
    }

    /// A JSON file of the specification.
    static func json(_ path: String) throws -> [String: Any] {
        let data = try Data(contentsOf: specification.appending(path: path))
        guard let object = try JSONSerialization.jsonObject(with: data) as? [String: Any] else {
            throw CocoaError(.fileReadCorruptFile)
        }
        return object
    }
}
