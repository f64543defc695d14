import Foundation
import Testing

@testable import LarderImages

@Suite("Sweeps over files of other programs and failing files")
struct BlobSweepTests {
    @Test("directories and special files of other programs do not end a sweep")
    func foreignFiles() throws {
        try withDirectory { path in
            let digests: [BlobDigest]
            do {
                let store = try BlobStore(counting: path)
                digests = try (1...3).map { try store.put(picture($0)).digest }
            }
            let manager = FileManager.default
            try manager.createDirectory(atPath: path + "/tmp/directory", withIntermediateDirectories: false)
            try manager.createSymbolicLink(atPath: path + "/tmp/link", withDestinationPath: "/")
            for name in ["a", "z"] { try Data("old".utf8).write(to: URL(filePath: path + "/tmp/" + name)) }
            // The names of three files, one of which is a directory.
            let directory = path + "/" + BlobFiles.name(digests[0])
            try manager.removeItem(atPath: directory)
            try manager.createDirectory(atPath: directory, withIntermediateDirectories: false)
            let store = try BlobStore(counting: path)
            #expect(try store.sweepAll() == 5)
            #expect(try manager.contentsOfDirectory(atPath: path + "/tmp") == ["directory"])
            #expect(filesBelow(path + "/blobs").isEmpty)
            #expect(try store.sweepAll() == 0)
        }
    }

    @Test("a file that cannot be removed or read does not end a sweep or the search for missing files")
    func failingFile() throws {
        try withDirectory { path in
            let digests: [BlobDigest]
            do {
                let store = try BlobStore(counting: path)
                digests = try (1...3).map { try store.put(picture($0)).digest }
            }
            for name in ["a", "b"] { try Data("old".utf8).write(to: URL(filePath: path + "/tmp/" + name)) }
            let files = try FaultyCacheFiles(path)
            let store = try BlobStore(path: path, files: files)
            files.fail("tmp/a", EIO)
            let slice = try store.sweeper.sweep(step: 0)
            #expect(slice.removed == 1 && slice.failure?.code == .storageFailed && slice.next != nil)
            files.fail(BlobFiles.name(digests[0]), EIO)
            for digest in digests { store.adopt(digest, size: 1000) }
            try FileManager.default.removeItem(atPath: path + "/" + BlobFiles.name(digests[1]))
            var check = BlobSweeper.check(digests, in: files)
            #expect(check.suspects == [digests[1]] && check.failure?.code == .storageFailed)
            (check.suspects, check.failure) = (check.suspects + [digests[0]], nil)
            let result = store.sweeper.missing(after: check)
            #expect(result.missing == [digests[1]] && result.failure?.code == .storageFailed)
        }
    }
}
