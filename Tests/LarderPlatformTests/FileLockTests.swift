import Glibc
import LarderPlatform
import SystemPackage
import TestSupport
import Testing

@Suite("File locks")
struct FileLockTests {
    private func openFile(_ path: String) -> CInt { open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600) }

    @Test("acquiring a held lock fails with the text that its holder wrote, and succeeds after the release")
    func exclusion() throws {
        try withTemporaryDirectory { directory in
            let path = directory + "/lock"
            var first: FileLock? = try FileLock(openFile(path))
            #expect(holder(path) == "")
            first?.writeProcessID()
            #expect(holder(path) == "\(getpid())")
            first?.unlock()
            #expect(holder(path) == nil)
            first = nil
            first = try FileLock(openFile(path))
            #expect(holder(path) == "\(getpid())")
            first = nil
            #expect(holder(path) == nil)
        }
    }

    @Test("a directory can be locked")
    func directories() throws {
        try withTemporaryDirectory { directory in
            let lock = try FileLock(open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC))
            #expect(throws: FileLock.Failure.self) { try FileLock(open(directory, O_RDONLY | O_CLOEXEC)) }
            lock.unlock()
        }
    }

    @Test("a failed system call is reported with its error number")
    func failure() {
        do throws(FileLock.Failure) {
            _ = try FileLock(-1)
            Issue.record("an invalid descriptor was locked")
        } catch {
            guard case .failed(let error) = error else {
                Issue.record("\(error)")
                return
            }
            #expect(error == Errno(rawValue: EBADF))
        }
    }

    /// The text that the holder of the lock wrote into the file; nil if the lock is free.
    private func holder(_ path: String) -> String? {
        do throws(FileLock.Failure) {
            _ = try FileLock(openFile(path))
            return nil
        } catch {
            guard case .isHeld(let holder) = error else { return "\(error)" }
            return holder
        }
    }
}
