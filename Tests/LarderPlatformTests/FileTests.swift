import Glibc
import LarderPlatform
import SystemPackage
import TestSupport
import Testing

@Suite("Files and directories")
struct FileTests {
    @Test("a listing has all names as bytes, without . and .., and leaves the directory open")
    func names() throws {
        try withTemporaryDirectory { path in
            let directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
            #expect(try DirectoryListing.names(in: directory).isEmpty)
            let expected: Set<[UInt8]> = [Array("a".utf8), Array(".hidden".utf8), [0x66, 0xFF]]
            for name in expected {
                close(openat(directory, name.map { CChar(bitPattern: $0) } + [0], O_CREAT | O_WRONLY, 0o600))
            }
            for _ in 0..<2 {
                let names = try DirectoryListing.names(in: directory)
                #expect(names.count == 3 && Set(names) == expected)
            }
            #expect(try Set(DirectoryListing.names(closing: directory)) == expected)
            #expect(fcntl(directory, F_GETFD) == -1)
        }
    }

    @Test("listing a file that is not a directory fails")
    func notADirectory() throws {
        try withTemporaryDirectory { path in
            let file = open(path + "/file", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            #expect(throws: Errno(rawValue: ENOTDIR)) { try DirectoryListing.names(in: file) }
            #expect(throws: Errno(rawValue: ENOTDIR)) { try DirectoryListing.names(closing: file) }
        }
    }

    @Test("all bytes are written, at the file position or at an offset")
    func writing() throws {
        try withTemporaryDirectory { path in
            let file = open(path + "/file", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
            defer { close(file) }
            try write("one two", to: file)
            try write("TWO", to: file, at: 4)
            try write("", to: file)
            try write(" three", to: file)
            var bytes = [UInt8](repeating: 0, count: 20)
            #expect(pread(file, &bytes, 20, 0) == 13)
            #expect(String(decoding: bytes.prefix(13), as: UTF8.self) == "one TWO three")
        }
    }

    @Test("a failed write throws its error number; the description of that error is the text of the system")
    func failure() {
        #expect(throws: Errno(rawValue: EBADF)) { try write("x", to: -1) }
        #expect(Errno(rawValue: ENOENT).description == "No such file or directory")
    }

    private func write(_ text: String, to file: CInt, at offset: Int? = nil) throws {
        try writeAll(Array(text.utf8), to: file, at: offset)
    }
}
