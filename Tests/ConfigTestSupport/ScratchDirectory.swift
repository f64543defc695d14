import Foundation

/// A temporary directory for one test. Its methods change files as editors and deployment tools do.
package final class ScratchDirectory: Sendable {
    package let path: String

    package struct Failed: Error { let errno: Int32 }

    package init() throws {
        // The path contains no symbolic links, because the watcher would also watch the directories behind them, and
        // some tests count the watches.
        let base = FileManager.default.temporaryDirectory.resolvingSymlinksInPath().path
        path = base + "/larder-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    package func at(_ name: String) -> String { path + "/" + name }

    package func makeDirectory(_ name: String) throws {
        try FileManager.default.createDirectory(atPath: at(name), withIntermediateDirectories: true)
    }

    /// Overwrites an existing file in place, or creates one.
    package func write(_ text: String, to name: String) throws {
        guard let file = fopen(at(name), "w") else { throw Failed(errno: errno) }
        fputs(text, file)
        fclose(file)
    }

    /// Writes a new file and renames it over the old one.
    package func replace(_ name: String, with text: String) throws {
        try write(text, to: name + ".new~")
        try move(name + ".new~", to: name)
    }

    package func move(_ name: String, to other: String) throws {
        guard rename(at(name), at(other)) == 0 else { throw Failed(errno: errno) }
    }

    package func link(_ name: String, to target: String) throws {
        guard symlink(target, at(name)) == 0 else { throw Failed(errno: errno) }
    }

    package func remove(_ name: String) throws { try FileManager.default.removeItem(atPath: at(name)) }

    package func exists(_ name: String) -> Bool { FileManager.default.fileExists(atPath: at(name)) }

    package func text(_ name: String) -> String? { try? String(contentsOfFile: at(name), encoding: .utf8) }

    /// Publishes files as kubelet's atomic writer does for a ConfigMap. It writes them into a new directory, renames a
    /// symbolic link to that directory over `..data`, and adds links through `..data` under the visible names.
    package func publish(_ files: [String: String], version: Int, in mount: String) throws {
        let directory = "..2024_01_01_00_00_00.\(version)"
        try makeDirectory("\(mount)/\(directory)")
        for (name, text) in files { try write(text, to: "\(mount)/\(directory)/\(name)") }
        let old = try? FileManager.default.destinationOfSymbolicLink(atPath: at("\(mount)/..data"))
        try link("\(mount)/..data_tmp", to: directory)
        try move("\(mount)/..data_tmp", to: "\(mount)/..data")
        for name in files.keys where text("\(mount)/\(name)") == nil {
            try link("\(mount)/\(name)", to: "..data/\(name)")
        }
        if let old { try remove("\(mount)/\(old)") }
    }
}
