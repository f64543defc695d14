import CLinuxShims
import Foundation

/// Creates memory files, and counts the descriptors of this process that refer to a file.
enum OpenFile {
    /// Creates a file in memory.
    static func create(_ bytes: [UInt8]) throws -> CInt {
        let file = larder_memfd_create("image")
        guard file >= 0, write(file, bytes, bytes.count) == bytes.count else { throw ImageFixture.Failure.descriptor }
        return file
    }

    /// Counts the descriptors of this process that refer to the same file as `descriptor`.
    static func count(of descriptor: CInt) -> Int {
        guard let wanted = identity(descriptor) else { return 0 }
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        return names.compactMap { CInt($0) }.count { identity($0) == wanted }
    }

    /// Returns once at most `expected` descriptors refer to the same file as `descriptor`.
    static func waitUntilOnly(_ descriptor: CInt, _ expected: Int = 1) async {
        while count(of: descriptor) > expected { await Task.yield() }
    }

    private static func identity(_ descriptor: CInt) -> [UInt64]? {
        var information = stat()
        guard fstat(descriptor, &information) == 0 else { return nil }
        return [UInt64(information.st_dev), UInt64(information.st_ino)]
    }
}
