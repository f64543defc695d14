import Foundation
import LarderPlatform
import TestSupport
import Testing

@Suite("Files below a directory")
struct LocalDirectoryFilesTests {
    /// Calls `body` with the files below a new directory, and its path.
    private func with(_ body: (_ files: LocalDirectoryFiles, _ path: String) throws -> Void) throws {
        try withTemporaryDirectory { try body(LocalDirectoryFiles(path: $0 + "/files"), $0 + "/files") }
    }

    private func write(_ text: String, to name: String, _ files: LocalDirectoryFiles) throws {
        let file = try files.create(name)
        try file.append(Array(text.utf8))
        try file.seal()
    }

    private func read(_ name: String, _ files: LocalDirectoryFiles) throws -> String? {
        try files.open(name).map { String(decoding: try $0.read(at: 0, count: 100), as: UTF8.self) }
    }

    @Test("a file is written once, sealed, and read at any offset")
    func roundTrip() throws {
        try with { files, path in
            #expect(try files.createDirectory("a"))
            #expect(try !files.createDirectory("a"))
            try write("content", to: "a/b", files)
            let file = try #require(try files.open("a/b"))
            #expect(try file.size() == 7)
            #expect(try file.read(at: 3, count: 2) == Array("te".utf8))
            #expect(try file.read(at: 7, count: 2).isEmpty)
            #expect(try files.list("a") == ["b"])
            let mode = try FileManager.default.attributesOfItem(atPath: path + "/a/b")[.posixPermissions] as? Int
            #expect(mode == 0o440)
            #expect(throws: FileError.self) { try files.create("a/b") }
        }
    }

    @Test("publishing a file never replaces another one, and replacing does")
    func names() throws {
        try with { files, _ in
            try write("old", to: "old", files)
            try write("new", to: "new", files)
            #expect(try !files.publish("new", as: "old"))
            #expect(try read("old", files) == "old")
            try files.replace("new", as: "old")
            #expect(try read("old", files) == "new")
            #expect(try files.publish("old", as: "other"))
            #expect(try files.list(".") == ["other"])
        }
    }

    @Test("what does not exist is no error, and a directory with files stays")
    func missing() throws {
        try with { files, _ in
            #expect(try files.open("none")?.descriptor == nil)
            #expect(try !files.remove("none"))
            #expect(try !files.removeDirectory("none"))
            #expect(try files.list("none").isEmpty)
            #expect(try files.allocatedBytes("none") == 0)
            #expect("none".withCString { !files.hasFile($0) })
            #expect(try files.createDirectory("full"))
            try write("", to: "full/file", files)
            #expect(try !files.removeDirectory("full"))
            #expect(try files.remove("full/file"))
            #expect(try files.removeDirectory("full"))
        }
    }

    @Test("no name leads outside the directory, and links are not followed")
    func outside() throws {
        try with { files, path in
            try Data("precious".utf8).write(to: URL(fileURLWithPath: path + "/../precious"))
            symlink("..", path + "/link")
            for name in ["../precious", "link/precious", "/etc/passwd"] {
                #expect(throws: FileError.self, "\(name)") { try files.open(name) }
                #expect(throws: FileError.self, "\(name)") { try files.remove(name) }
                #expect(throws: FileError.self, "\(name)") { try files.create(name + "2") }
            }
            #expect(FileManager.default.contents(atPath: path + "/../precious") == Data("precious".utf8))
        }
    }
}
