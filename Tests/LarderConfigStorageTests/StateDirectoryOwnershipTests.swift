import Glibc
import LarderConfigStorage
import LarderPlatform
import TestSupport
import Testing

@Suite("A state directory with files of other users")
struct StateDirectoryOwnershipTests {
    private let root: TemporaryDirectory

    init() throws {
        root = try TemporaryDirectory()
        chmod(root.path, 0o755)
    }

    private func make(_ name: String, mode: mode_t = 0o755) -> String {
        let path = "\(root.path)/\(name)"
        mkdir(path, 0o700)
        chmod(path, mode)
        return path
    }

    @Test(
        "a directory of the state that belongs to another user is refused", .enabled(if: geteuid() == 0, "needs root"))
    func stateDirectories() throws {
        let state = make("state", mode: 0o700)
        let config = make("state/config")
        chown(config, 60200, 60200)
        let error = #expect(throws: UnsafeDirectory.self) {
            try StateDirectory(path: state, files: LocalFileSystem())
        }
        #expect(error?.description.contains("\(config) belongs to user 60200") == true)
    }

    @Test("a lock file with another name is refused, and the file is unchanged")
    func hardLink() throws {
        let state = make("state", mode: 0o700)
        let precious = "\(root.path)/precious"
        try LocalFileSystem().replace(precious, with: Array("content".utf8))
        link(precious, state + "/lock")
        let error = #expect(throws: FileError.self) { try StateDirectory(path: state, files: LocalFileSystem()) }
        #expect(error?.description.contains("\(state)/lock is a hard link") == true)
        #expect(try LocalFileSystem().read(precious) == Array("content".utf8))
    }
}
