import Glibc
import LarderPlatform
import TestSupport
import Testing

@Suite("Atomic replacement of files")
struct AtomicReplaceTests {
    private func content(_ path: String) -> [UInt8]? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = read(descriptor, &bytes, bytes.count)
        return Array(bytes.prefix(max(0, count)))
    }

    @Test("the file has its previous content until it is replaced", arguments: [false, true])
    func replaces(synchronizing: Bool) throws {
        try withTemporaryDirectory { directory in
            let path = directory + "/file"
            for text in ["first", "second"] {
                let previous = content(path)
                var file = try AtomicReplace(path, temporary: path + ".tmp", mode: 0o640)
                try file.write(Array(text.utf8))
                #expect(content(path) == previous)
                try file.replace(synchronizing: synchronizing)
                #expect(content(path) == Array(text.utf8))
            }
            try synchronizeDirectory(directory)
        }
    }

    @Test("a temporary file that does not replace the target is removed")
    func abandons() throws {
        try withTemporaryDirectory { directory in
            let parent = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            defer { close(parent) }
            do {
                let file = try AtomicReplace("file", temporary: "file.tmp", in: parent, mode: 0o600)
                try file.write([1])
            }
            #expect(try DirectoryListing.names(in: parent).isEmpty)
        }
    }

    @Test("symbolic links at the path and at the temporary path are replaced, and their target is unchanged")
    func existingTemporary() throws {
        try withTemporaryDirectory { directory in
            let (path, target) = (directory + "/file", directory + "/target")
            close(open(target, O_CREAT | O_WRONLY | O_CLOEXEC, 0o600))
            #expect(symlink(target, path) == 0)
            #expect(symlink(target, path + ".tmp") == 0)
            var file = try AtomicReplace(path, temporary: path + ".tmp", mode: 0o600)
            try file.write([1])
            try file.replace(synchronizing: false)
            #expect(content(path) == [1])
            #expect(content(target) == [])
        }
    }

    @Test("an error names the step that failed")
    func failures() throws {
        try withTemporaryDirectory { directory in
            let path = directory + "/file"
            #expect(mkdir(path + ".tmp", 0o700) == 0)
            let first = failure { () throws(AtomicReplace.Failure) in
                _ = try AtomicReplace(path, temporary: path + ".tmp", mode: 0o600)
            }
            #expect(first == .create)
            #expect(mkdir(path, 0o700) == 0)
            let last = failure { () throws(AtomicReplace.Failure) in
                var file = try AtomicReplace(path, temporary: path + ".new", mode: 0o600)
                try file.replace(synchronizing: true)
            }
            #expect(last == .rename)
            #expect(access(path + ".new", F_OK) != 0)
        }
    }

    private func failure(_ body: () throws(AtomicReplace.Failure) -> Void) -> AtomicReplace.Failure.Step? {
        do throws(AtomicReplace.Failure) {
            try body()
            return nil
        } catch {
            return error.step
        }
    }
}
