import CLinuxShims
import Foundation
import Synchronization
import Testing

@testable import LarderImages

@Suite("Content of files from clients", .timeLimit(.minutes(15)))
struct PutContentTests {
    private func withFile(_ bytes: [UInt8], _ body: (CInt, PassedInFile) throws -> Void) throws {
        let file = larder_memfd_create("image")
        try #require(write(file, bytes, bytes.count) == bytes.count)
        // Sets the modification time to one in the past. Otherwise a change of the file in the clock tick of its
        // creation would not change the modification time.
        let past = [timespec(tv_sec: 1, tv_nsec: 0), timespec(tv_sec: 1, tv_nsec: 0)]
        try #require(futimens(file, past) == 0)
        try body(file, PassedInFile(file) { close($0) })
    }

    private func code(_ body: () throws(ImageError) -> Void) -> ImageError.Code? {
        do throws(ImageError) {
            try body()
            return nil
        } catch {
            return error.code
        }
    }

    @Test("a file is read in pieces up to the size that it had at the start")
    func pieces() throws {
        let bytes = (0..<600_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        try withFile(bytes) { _, file in
            let reading = try file.reading()
            var read: [UInt8] = []
            while read.count < reading.size { read += try reading.chunk(at: read.count) }
            #expect(read == bytes)
            #expect(code { () throws(ImageError) in try reading.checkUnchanged() } == nil)
        }
    }

    @Test("a file that shrinks, grows or changes while it is read is rejected")
    func changes() throws {
        let changes: [(CInt) -> Bool] = [
            { ftruncate($0, 10) == 0 }, { ftruncate($0, 1001) == 0 }, { pwrite($0, "x", 1, 500) == 1 },
        ]
        for change in changes {
            try withFile(picture(1)) { descriptor, file in
                let reading = try file.reading()
                #expect(change(descriptor))
                #expect(code { () throws(ImageError) in try reading.checkUnchanged() } == .fileChanged)
            }
        }
        try withFile(picture(1)) { descriptor, file in
            let reading = try file.reading()
            #expect(ftruncate(descriptor, 10) == 0)
            #expect(try reading.chunk(at: 0).count == 10)
            #expect(code { () throws(ImageError) in _ = try reading.chunk(at: 10) } == .fileChanged)
        }
    }

    @Test("a file that changes while it is stored leaves nothing behind")
    func nothingStored() async throws {
        try await withCache { fixture in
            let bytes = picture(1, size: 2 << 20)
            let file = larder_memfd_create("image")
            try #require(write(file, bytes, bytes.count) == bytes.count)
            // Another thread changes the file continuously. On a busy machine it may not run during a read, so that the file
            // is stored. Then the attempt is repeated.
            let isDone = Flag()
            let changing = Thread {
                var size = off_t(bytes.count)
                while !isDone.isSet {
                    size += 1
                    _ = ftruncate(file, size)
                }
                close(file)
            }
            changing.start()
            var failure: ImageError.Code?
            while failure == nil {
                do throws(ImageError) {
                    let content = PutContent.file(PassedInFile(dup(file)) { close($0) })
                    _ = try await fixture.cache.put(fixture.request(url(1)), content, lifetime: 60)
                    _ = try await fixture.cache.remove(ImagePrefix(url(1)), isTrial: false)
                } catch {
                    failure = error.code
                }
            }
            isDone.set()
            #expect(failure == .fileChanged)
            #expect(fixture.cache.view.statistics.entries == 0 && fixture.cache.view.statistics.reservedBytes == 0)
            #expect(fixture.blobs.isEmpty)
        }
    }

    private final class Flag: Sendable {
        private let value = Mutex(false)
        var isSet: Bool { value.withLock { $0 } }
        func set() { value.withLock { $0 = true } }
    }
}
