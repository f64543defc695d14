import Foundation
import LarderPlatform
import TestSupport
import Testing

@Suite("Opening files beneath a directory")
struct OpenBeneathTests {
    private func open(_ directory: CInt, _ name: String, _ flags: CInt, mode: mode_t = 0) -> CInt {
        OpenBeneath.open(directory, name, flags, mode: mode)
    }

    @Test("files and directories beneath the directory are opened or created, with close-on-exec")
    func below() throws {
        try withOpenDirectory { path, directory in
            let created = open(directory, "a/b/new", O_WRONLY | O_CREAT | O_EXCL, mode: 0o600)
            #expect(created >= 0)
            #expect(fcntl(created, F_GETFD) == FD_CLOEXEC)
            #expect(write(created, "text", 4) == 4)
            close(created)
            #expect(open(directory, "a/b/new", O_WRONLY | O_CREAT | O_EXCL, mode: 0o600) == -1)
            #expect(errno == EEXIST)
            #expect(FileManager.default.contents(atPath: path + "/a/b/new") == Data("text".utf8))
            for name in [".", "a", "a/b"] {
                let descriptor = open(directory, name, O_RDONLY | O_DIRECTORY)
                #expect(descriptor >= 0, "\(name)")
                close(descriptor)
            }
            #expect(open(directory, "a/none/new", O_RDONLY) == -1)
            #expect(errno == ENOENT)
        }
    }

    @Test("symbolic links and paths that leave the directory are not followed")
    func elsewhere() throws {
        try withOpenDirectory { path, directory in
            let manager = FileManager.default
            _ = manager.createFile(atPath: path + "/a/file", contents: Data())
            try manager.createSymbolicLink(atPath: path + "/link", withDestinationPath: "a")
            try manager.createSymbolicLink(atPath: path + "/a/last", withDestinationPath: "file")
            for name in ["link/file", "a/last", "link", "a/../../x", "..", "/etc/hostname", "a//../..", "../\(path)"] {
                #expect(open(directory, name, O_RDONLY) == -1, "\(name)")
            }
            #expect(open(directory, "link/new", O_WRONLY | O_CREAT, mode: 0o600) == -1)
            #expect(!manager.fileExists(atPath: path + "/a/new"))
        }
    }

    private func withOpenDirectory(_ body: (String, CInt) throws -> Void) throws {
        try withTemporaryDirectory { parent in
            let path = parent + "/root"
            try FileManager.default.createDirectory(atPath: path + "/a/b", withIntermediateDirectories: true)
            let directory = Glibc.open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            defer { close(directory) }
            try body(path, directory)
        }
    }
}
