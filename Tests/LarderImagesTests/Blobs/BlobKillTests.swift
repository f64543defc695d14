import CLinuxShims
import Foundation
import TestSupport
import Testing

@testable import LarderImages

/// The directory of the cache in the child process; nil in all other processes.
private let childDirectory = ProcessInfo.processInfo.environment["LARDER_BLOB_CHILD"]

/// Kills real processes while they write, remove and sweep.
///
/// The child is this test program. It runs only the test `child`, which no other process runs. It reports each step,
/// and the parent kills it after a number of steps, so the test does not depend on time.
@Suite("Blob store after kill -9")
struct BlobKillTests {
    @Test(
        "a child process writes, removes and sweeps until it is killed",
        .enabled(if: childDirectory != nil, "needs LARDER_BLOB_CHILD, which the test `kills` sets for its child"))
    func child() throws {
        let path = try #require(childDirectory)
        let store = try BlobStore(counting: path, limits: SpaceLimits(freeBytes: 0))
        let log = try #require(FileHandle(forWritingAtPath: path + ".rows"))
        try log.seekToEnd()
        var digests = Self.rows(path)
        for digest in digests { store.adopt(digest, size: 20_000) }
        var generator = SystemRandomNumberGenerator()
        var step = 0
        while true {
            if Int.random(in: 0..<3, using: &generator) > 0 {
                let number = Int.random(in: 0..<40, using: &generator)
                let blob = try store.put(picture(number, size: 20_000), pieces: 5_000)
                if digests.insert(blob.digest).inserted {
                    try log.write(contentsOf: Data("+\(blob.digest)\n".utf8))
                } else {
                    try store.drop(blob.digest)
                }
            } else if let digest = digests.randomElement(using: &generator) {
                digests.remove(digest)
                try log.write(contentsOf: Data("-\(digest)\n".utf8))
                try store.drop(digest)
            }
            step = try store.sweeper.sweep(step: step).next ?? 0
            // Reports the step by one byte, on a separate descriptor because the test program writes to its standard
            // output.
            FileHandle(fileDescriptor: 3).write(Data([0x2E]))
        }
    }

    /// The digests of the rows that were added and not removed, according to the log.
    private static func rows(_ path: String) -> Set<BlobDigest> {
        var rows: Set<BlobDigest> = []
        let text = String(decoding: FileManager.default.contents(atPath: path + ".rows") ?? Data(), as: UTF8.self)
        // An incomplete last line does not count.
        for line in text.split(separator: "\n", omittingEmptySubsequences: false).dropLast() {
            guard let digest = BlobDigest(hex: String(line.dropFirst())) else { continue }
            if line.first == "+" { rows.insert(digest) } else { rows.remove(digest) }
        }
        return rows
    }

    @Test("after kills at random moments, each row has a complete file, and orphans are swept")
    func kills() throws {
        try withDirectory { path in
            #expect(FileManager.default.createFile(atPath: path + ".rows", contents: nil))
            var generator = SeededGenerator(seed: 5)
            for _ in 0..<12 {
                try killChild(path, after: Int.random(in: 1...60, using: &generator))
                let rows = Self.rows(path)
                let store = try BlobStore(counting: path)
                #expect(store.isUnclean)
                for digest in rows {
                    store.adopt(digest, size: 20_000)
                    #expect(try store.open(digest).size == 20_000)
                }
                _ = try store.sweepAll()
                let files = filesBelow(path + "/blobs")
                #expect(Set(files.keys.compactMap { BlobDigest(hex: String($0.suffix(64))) }) == rows)
                #expect(files.values.reduce(0, +) == store.usage.bytes)
                #expect(filesBelow(path + "/tmp").isEmpty)
            }
        }
    }

    private func killChild(_ path: String, after steps: Int) throws {
        var ends: [CInt] = [0, 0]
        try #require(socketpair(AF_UNIX, CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends) == 0)
        defer { close(ends[0]) }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, ends[1], 3)
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0)
        // The child must not inherit the sockets of concurrent tests.
        larder_spawn_closes_from(&actions, 4)
        let arguments = ["tests", "--testing-library", "swift-testing", "--filter", "BlobKillTests/child"]
        let environment =
            ProcessInfo.processInfo.environment.map { "\($0.key)=\($0.value)" } + ["LARDER_BLOB_CHILD=\(path)"]
        var child: pid_t = 0
        let result = withCStrings(arguments) { arguments in
            withCStrings(environment) { posix_spawn(&child, "/proc/self/exe", &actions, nil, arguments, $0) }
        }
        close(ends[1])
        try #require(result == 0)
        var byte: UInt8 = 0
        var count = 0
        // End of file means that the child has exited.
        while count < steps, read(ends[0], &byte, 1) == 1 { count += 1 }
        kill(child, SIGKILL)
        var status: CInt = 0
        while waitpid(child, &status, 0) < 0, errno == EINTR {}
        #expect(count == steps, "the child exited before it was killed")
    }

    private func withCStrings<T>(_ texts: [String], _ body: ([UnsafeMutablePointer<CChar>?]) -> T) -> T {
        let pointers = texts.map { strdup($0) } + [nil]
        defer { pointers.forEach { free($0) } }
        return body(pointers)
    }
}
