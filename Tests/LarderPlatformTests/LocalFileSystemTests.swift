import Foundation
import LarderPlatform
import TestSupport
import Testing

@Suite("File system beneath a directory")
struct LocalFileSystemTests {
    /// Calls `body` with a root, which is a symbolic link to a directory, and a directory outside the root, which
    /// contains one file.
    private func with(_ body: (_ files: LocalFileSystem, _ root: String, _ outside: String) throws -> Void) throws {
        try withTemporaryDirectory { directory in
            let (root, outside) = (directory + "/root", directory + "/outside")
            for path in [directory + "/real", outside] { mkdir(path, 0o700) }
            symlink(directory + "/real", root)
            try Data("precious".utf8).write(to: URL(fileURLWithPath: outside + "/file"))
            try body(LocalFileSystem(beneath: root), root, outside)
        }
    }

    private func text(_ path: String) throws -> String { try String(contentsOfFile: path, encoding: .utf8) }

    @Test("files are created, read, replaced, renamed, listed and removed")
    func regularFiles() throws {
        try with { files, root, _ in
            try files.createDirectory(root + "/a/b")
            try files.createDirectory(root + "/a/b")
            try LocalFileSystem().createDirectory("/")
            #expect(try files.read(root + "/a/b/c") == nil)
            try files.replace(root + "/a/b/c", with: [1])
            try files.replace(root + "/a/b/c", with: [2, 3])
            #expect(try files.read(root + "/a/b/c") == [2, 3])
            try files.rename(root + "/a/b/c", to: root + "/a/b/d")
            #expect(try files.list(root + "/a/b") == ["d"])
            try files.openJournal(root + "/a/b/journal", size: 4).write([7], at: 1)
            #expect(try files.readJournal(root + "/a/b/journal") == JournalContent(bytes: [0, 7], zeros: 2))
            try files.remove(root + "/a/b/d")
            try files.remove(root + "/a/b/d")
            #expect(try files.list(root + "/a/b") == ["journal"])
            #expect(try files.list(root) == ["a"])
        }
    }

    @Test("no call follows a symbolic link on the path, and the error names the link")
    func linkOnThePath() throws {
        try with { files, root, outside in
            symlink(outside, root + "/link")
            let calls: [() throws -> Void] = [
                { try files.createDirectory(root + "/link/new/deep") },
                { _ = try files.list(root + "/link") },
                { _ = try files.read(root + "/link/file") },
                { _ = try files.readJournal(root + "/link/file") },
                { try files.replace(root + "/link/file", with: [1]) },
                { try files.rename(root + "/link/file", to: root + "/link/other") },
                { try files.remove(root + "/link/file") },
                { _ = try files.openJournal(root + "/link/journal", size: 1) },
            ]
            for call in calls {
                let error = #expect(throws: FileError.self) { try call() }
                #expect(error?.description.contains("\(root)/link is a symbolic link") == true, "\(error as Any)")
            }
            let (names, text) = (try files.list(outside), try text(outside + "/file"))
            #expect(names == ["file"])
            #expect(text == "precious")
        }
    }

    @Test("a file that is a symbolic link cannot be opened, but can be replaced, renamed and removed")
    func linkAsFile() throws {
        try with { files, root, outside in
            let link = root + "/link"
            symlink(outside + "/file", link)
            #expect(throws: FileError.self) { try files.read(link) }
            #expect(throws: FileError.self) { try files.readJournal(link) }
            #expect(throws: FileError.self) { try files.openJournal(link, size: 1) }
            // The name of the temporary file that `replace` writes may be that of an existing symbolic link, too.
            symlink(outside + "/file", link + ".tmp")
            try files.replace(link, with: [1])
            #expect(try files.read(link) == [1])
            symlink(outside + "/file", root + "/second")
            try files.rename(root + "/second", to: link)
            try files.remove(link)
            #expect(try files.list(root) == [])
            #expect(try text(outside + "/file") == "precious")
        }
    }

    @Test("FIFOs and directories are refused without blocking")
    func special() throws {
        try with { files, root, _ in
            mkfifo(root + "/fifo", 0o600)
            mkdir(root + "/directory", 0o700)
            for name in ["fifo", "directory"] {
                for read in [{ _ = try files.read($0) }, { _ = try files.readJournal($0) }] as [(String) throws -> Void]
                {
                    let error = #expect(throws: FileError.self) { try read("\(root)/\(name)") }
                    #expect(error?.description.contains("not a regular file") == true)
                }
            }
            #expect(throws: FileError.self) { try files.openJournal(root + "/fifo", size: 1) }
            try files.replace(root + "/fifo", with: [1])
            #expect(try files.read(root + "/fifo") == [1])
        }
    }

    @Test("symbolic links are followed on paths outside the directory")
    func elsewhere() throws {
        try with { _, root, outside in
            let files = LocalFileSystem(beneath: outside)
            try files.replace(root + "/file", with: [1])
            #expect(try files.read(root + "/file") == [1])
            #expect(try files.list(outside) == ["file"])
        }
    }
}
