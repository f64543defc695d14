import Foundation
import LarderImageFormats
import TestSupport
import Testing

@testable import LarderImages

@Suite("Blob store")
struct BlobStoreTests {
    @Test("a published image is a file named by its digest, with mode 0440")
    func publishing() throws {
        try withDirectory { path in
            let store = try BlobStore(counting: path)
            let blob = try store.put(picture(1))
            #expect(blob.size == 1000)
            #expect(blob.header.type == .png)
            #expect(try store.contents(blob.digest) == picture(1))
            #expect(FileManager.default.contents(atPath: store.path(of: blob.digest)) == Data(picture(1)))
            let digits = blob.digest.description
            #expect(store.path(of: blob.digest).hasSuffix("/blobs/\(digits.prefix(2))/\(digits)"))
            func mode(_ path: String) throws -> Int? {
                try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
            }
            #expect(try mode(store.path(of: blob.digest)) == 0o440)
            for directory in ["", "/blobs", "/tmp", "/blobs/" + digits.prefix(2)] {
                #expect(try mode(path + directory) == 0o750, "\(directory)")
            }
            #expect(store.usage == SpaceUsage.one)
            #expect(filesBelow(path + "/tmp").isEmpty)
        }
    }

    @Test("a shard directory is removed with its last image file and recreated for the next one")
    func shards() throws {
        try withDirectory { path in
            let store = try BlobStore(counting: path)
            let first = try store.put(picture(1)).digest
            let shard = path + "/" + BlobFiles.shard(first.shard)
            #expect(FileManager.default.fileExists(atPath: shard))
            try store.drop(first)
            #expect(!FileManager.default.fileExists(atPath: shard))
            _ = try store.put(picture(1))
            #expect(try store.contents(first) == picture(1))
            // The sweep removes an empty directory that a crash left behind.
            let empty = path + "/blobs/" + (first.description.hasPrefix("00") ? "01" : "00")
            try FileManager.default.createDirectory(atPath: empty, withIntermediateDirectories: false)
            #expect(try store.sweepAll() == 0)
            #expect(!FileManager.default.fileExists(atPath: empty))
            #expect(try FileManager.default.contentsOfDirectory(atPath: path + "/blobs").count == 1)
        }
    }

    @Test("identical bytes are stored once and kept until the last reference is released")
    func references() throws {
        try withDirectory { path in
            let store = try BlobStore(counting: path)
            let digest = try store.put(picture(1)).digest
            #expect(try store.put(picture(1), declared: true).digest == digest)
            #expect(store.retain(digest))
            #expect(store.usage.count == 1)
            #expect(filesBelow(path + "/blobs").count == 1)
            #expect(!store.release(digest))
            #expect(!store.release(digest))
            try store.removeUnreferenced(digest)
            #expect(filesBelow(path + "/blobs").count == 1)
            let file = try store.open(digest)
            #expect(store.release(digest))
            // The released file is not removed, because a reference is added before the removal.
            #expect(store.retain(digest))
            try store.removeUnreferenced(digest)
            #expect(filesBelow(path + "/blobs").count == 1)
            try store.drop(digest)
            #expect(filesBelow(path + "/blobs").isEmpty)
            #expect(store.usage == SpaceUsage.nothing)
            #expect(!store.retain(digest))
            #expect(!store.release(digest))
            // An open file can be read after its removal.
            #expect(try file.read(at: 990, count: 100) == Array(picture(1)[990...]))
        }
    }

    @Test("opening a second store fails with the pid of the first, and succeeds after the first is released")
    func locking() throws {
        try withDirectory { path in
            var first: BlobStore? = try BlobStore(path: path)
            let error = #expect(throws: ImageError.self) { try BlobStore(path: path) }
            #expect(error?.code == .cacheInUse)
            #expect(error?.message.contains("pid \(getpid())") == true)
            _ = first?.usage
            first = nil
            _ = try BlobStore(path: path)
        }
    }

    @Test("an invalid image is not published and leaves no file and no reservation")
    func refusals() throws {
        try withDirectory { path in
            let store = try BlobStore(
                counting: path, limits: SpaceLimits(freeBytes: 0, bytesPerImage: 2000),
                imageLimits: ImageLimits(maximumPixels: 1000))
            func code(_ bytes: [UInt8], declared: Int? = nil, expected: BlobDigest? = nil) -> ImageError.Code? {
                do throws(ImageError) {
                    let writer = try store.begin(declaredLength: declared)
                    for start in stride(from: 0, to: bytes.count, by: 100) {
                        try writer.append(Array(bytes[start..<min(bytes.count, start + 100)]))
                    }
                    _ = try store.finish(writer, expectedDigest: expected)
                    return nil
                } catch {
                    return error.code
                }
            }
            #expect(code(Array("<!DOCTYPE html><html><body>Not found</body></html>".utf8)) == .notAnImage)
            #expect(code([]) == .notAnImage)
            #expect(code(Array(picture(1).prefix(20))) == .truncatedImage)
            #expect(code(MadeImages.png(64_250, 64_250) + [UInt8](repeating: 0, count: 500)) == .tooManyPixels)
            #expect(code(picture(1), declared: 999) == .lengthMismatch)
            #expect(code(picture(1), declared: 1001) == .lengthMismatch)
            #expect(code(picture(1), declared: 2001) == .tooLarge)
            #expect(code(picture(1, size: 2001)) == .tooLarge)
            #expect(code(picture(1), expected: BlobDigest(hex: String(repeating: "a", count: 64))) == .digestMismatch)
            #expect(store.usage == SpaceUsage.nothing)
            #expect(filesBelow(path).keys.sorted() == ["lock"])
            #expect(code(picture(1), declared: 1000) == nil)
            #expect(code(picture(2, size: 2000)) == nil)
        }
    }

    @Test("a discarded or released writer leaves nothing behind, and a discarded one cannot be used")
    func discarding() throws {
        try withDirectory { path in
            let store = try BlobStore(counting: path)
            let writer = try store.begin()
            try writer.append(picture(1))
            #expect(filesBelow(path + "/tmp").count == 1)
            writer.discard()
            writer.discard()
            #expect(filesBelow(path + "/tmp").isEmpty)
            #expect(throws: ImageError.self) { try writer.append([1]) }
            #expect(throws: ImageError.self) { try store.finish(writer) }
            do {
                let released = try store.begin(declaredLength: 5000)
                try released.append(picture(2))
                #expect(store.usage.reservedBytes == 1000, "only the received bytes are reserved")
            }
            #expect(filesBelow(path + "/tmp").isEmpty)
            #expect(store.usage.reservedBytes == 0)
        }
    }

    @Test("a write begins only if its declared length, the pinned images and a new directory together fit the limit")
    func fitsBesidePinned() throws {
        try withDirectory { path in
            let store = try BlobStore(counting: path)
            store.register.change { $0.ledger.newDirectoryBytes = 4096 }
            let pinned = try store.put(picture(1))
            store.register.change { table in
                table.addRow(pinned.digest)
                table.countPin(pinned.digest, 1)
            }
            #expect(store.accounts.retained.bytes == 1000)
            let required = 1000 + 500 + 4096
            for limit in [required, required - 1] {
                store.update(limits: SpaceLimits(bytes: limit, freeBytes: 0))
                if limit == required {
                    _ = try store.begin(declaredLength: 500)
                } else {
                    let error = #expect(throws: ImageError.self) { try store.begin(declaredLength: 500) }
                    #expect(error?.code == .cacheFull)
                }
            }
        }
    }

    @Test("if the disk has less free space than it must keep, the error and the state name the setting")
    func diskLimit() throws {
        try withDirectory { path in
            let limit = 1 << 50
            let store = try BlobStore(counting: path, limits: SpaceLimits(freeBytes: limit))
            #expect(try store.writers.excess() != nil)
            #expect(store.accounts.read { $0.diskProblem }?.hasSuffix("minimumFreeBytes is \(limit)") == true)
            let declared = #expect(throws: ImageError.self) { try store.begin(declaredLength: 500) }
            #expect(declared?.message.contains("images.minimumFreeBytes is \(limit); lower this setting") == true)
            store.update(limits: SpaceLimits(bytes: 2000, freeBytes: 0))
            #expect(try store.writers.excess() == nil)
            #expect(store.accounts.read { $0.diskProblem } == nil)
            let large = #expect(throws: ImageError.self) { try store.begin(declaredLength: 2001) }
            #expect(large?.message.contains("; raise its limits, ") == true)
        }
    }

    @Test("a write without enough space fails and reports the shortage, and succeeds after space is freed")
    func shortage() throws {
        try withDirectory { path in
            let limits = SpaceLimits(bytes: 3000, count: 3, freeBytes: 0, bytesPerImage: 3000)
            let store = try BlobStore(counting: path, limits: limits)
            let first = try store.put(picture(1), declared: true)
            let second = try store.put(picture(2), declared: true)
            // No eviction frees enough space, because one of the two images is pinned.
            store.register.change { table in
                table.addRow(first.digest)
                table.countPin(first.digest, 1)
            }
            let big = #expect(throws: ImageError.self) { try store.begin(declaredLength: 2001) }
            #expect(big?.code == .cacheFull)
            #expect(big?.shortage == nil)
            store.register.change { $0.countPin(first.digest, -1) }

            // The length is not declared, so space is reserved for each append.
            let writer = try store.begin()
            let bytes = picture(3, size: 1500)
            let error = #expect(throws: ImageError.self) { try writer.append(bytes) }
            #expect(error?.code == .cacheFull)
            #expect(writer.written == 0)
            // The shortage is only the space that this append lacks, not the space for the rest of the image.
            #expect(error?.shortage?.bytes == 500 && error?.shortage?.count == 0)
            #expect(store.register.change { $0.release(first.digest, isRow: true) })
            _ = try store.removeUnreferenced(first.digest)
            try writer.append(bytes)
            try store.drop(second.digest)
            #expect(try store.finish(writer).size == 1500)

            let others = try [4, 5].map { try store.put(picture($0, size: 100), declared: true) }
            let another = try store.begin(declaredLength: 100)
            let full = #expect(throws: ImageError.self) { try another.append(picture(6, size: 100)) }
            #expect(full?.shortage?.bytes == 0 && full?.shortage?.count == 1)
            #expect(others.count == 2)
        }
    }

    @Test("writes fail if they would leave less than `freeBytes` free on the disk; a declared length reserves nothing")
    func freeDisk() throws {
        try withDirectory { path in
            let files = try FaultyCacheFiles(path)
            let store = try BlobStore(path: path, files: files, limits: SpaceLimits(freeBytes: 10_000))
            files.setFree(12_000)
            let writer = try store.begin(declaredLength: 1500)
            let other = try store.begin(declaredLength: 600)
            try writer.append(picture(1, size: 1500))
            files.setFree(10_500)
            let error = #expect(throws: ImageError.self) { try other.append(picture(2, size: 600)) }
            #expect(error?.code == .cacheFull)
            #expect(error?.shortage?.bytes == 100 && error?.shortage?.count == 0)
            files.setFree(10_600)
            try other.append(picture(2, size: 600))
            files.setFree(7_000)
            #expect(throws: ImageError.self) { try store.begin() }
            // A writer can still publish the bytes that it has already written.
            _ = try store.finish(writer)
        }
    }

    @Test("a file that changed on disk is detected before it is served, even after a clean stop")
    func changedWhileStopped() throws {
        try withDirectory { path in
            var digests: [BlobDigest] = []
            do {
                let store = try BlobStore(counting: path)
                digests = try (1...2).map { try store.put(picture($0)).digest }
                try store.markClean()
            }
            let name = path + "/" + BlobFiles.name(digests[0])
            try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: name)
            try Data(picture(3)).write(to: URL(filePath: name))
            let store = try BlobStore(counting: path)
            #expect(!store.isUnclean)
            digests.forEach { store.adopt($0, size: 1000) }
            #expect(!store.retain(digests[0], ifVerified: true))
            let error = #expect(throws: ImageError.self) { try store.open(digests[0]) }
            #expect(error?.code == .damagedBlob)
            #expect(try store.contents(digests[1]) == picture(2))
            // After a clean start, the stop is clean whether or not all files were verified.
            #expect(filesBelow(path)["clean"] == nil)
            try store.markClean()
            #expect(filesBelow(path)["clean"] == 0)
        }
    }

    @Test(
        "after an unclean stop, files are verified before they are served; a stop is clean once all are verified"
    )
    func unclean() throws {
        try withDirectory { path in
            var digests: [BlobDigest] = []
            func damage(_ digest: BlobDigest) throws {
                let name = path + "/" + BlobFiles.name(digest)
                try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: name)
                let handle = try #require(FileHandle(forUpdatingAtPath: name))
                try handle.seek(toOffset: 500)
                try handle.write(contentsOf: Data([0, 1, 2, 3]))
                try handle.close()
            }
            do {
                let store = try BlobStore(counting: path)
                #expect(!store.isUnclean)
                digests = try (1...3).map { try store.put(picture($0)).digest }
                try store.markClean()
            }
            do {
                let store = try BlobStore(counting: path)
                #expect(!store.isUnclean)
                digests.forEach { store.adopt($0, size: 1000) }
                // The store is not marked as clean, as after a kill.
            }
            try damage(digests[0])
            do {
                let files = try FaultyCacheFiles(path)
                let store = try BlobStore(path: path, files: files)
                #expect(store.isUnclean)
                digests.forEach { store.adopt($0, size: 1000) }
                let error = #expect(throws: ImageError.self) { try store.open(digests[0]) }
                #expect(error?.code == .damagedBlob)
                #expect(filesBelow(path + "/blobs").count == 2)
                #expect(throws: ImageError.self) { try store.open(digests[0]) }
                #expect(try store.contents(digests[1]) == picture(2))
                // The file was hashed at its first use. Opening the file again takes only two file operations.
                files.arm(nil)
                _ = try store.open(digests[1])
                #expect(files.calls == 2)
                try store.drop(digests[0])
                #expect(store.usage.count == 2)
                // The third file is not verified, so the stop is not clean.
                try store.markClean()
                #expect(filesBelow(path)["clean"] == nil)
                _ = try store.open(digests[2])
                try store.markClean()
                #expect(filesBelow(path)["clean"] == 0)
            }
            #expect(try !BlobStore(path: path).isUnclean)
        }
    }

    @Test("a blob that is published again after its file was found missing stays verified")
    func publishedAfterMissing() throws {
        try withDirectory { path in
            let store = try BlobStore(counting: path)
            let digest = try store.put(picture(1)).digest
            try FileManager.default.removeItem(atPath: store.path(of: digest))
            store.register.change { $0.setVerified(digest, false) }
            let opening = try BlobFiles.open(digest, in: store.files, isVerified: false)
            _ = try store.put(picture(1))
            #expect(try store.complete(opening, of: digest).size == 1000)
            #expect(store.accounts.isVerified(digest))
            try FileManager.default.removeItem(atPath: store.path(of: digest))
            let error = #expect(throws: ImageError.self) { try store.complete(opening, of: digest) }
            #expect(error?.code == .damagedBlob)
            #expect(!store.accounts.isVerified(digest))
        }
    }

    @Test("a put adopts an unindexed file under its digest if the bytes are the same, and replaces the file otherwise")
    func orphans() throws {
        try withDirectory { path in
            let digest: BlobDigest
            do { digest = try BlobStore(path: path).put(picture(1)).digest }
            let name = path + "/" + BlobFiles.name(digest)
            for content in [picture(1), picture(2), [], picture(1, size: 2000)] {
                try? FileManager.default.removeItem(atPath: name)
                try Data(content).write(to: URL(filePath: name))
                let store = try BlobStore(counting: path)
                #expect(store.isUnclean)
                #expect(try store.put(picture(1)).digest == digest)
                #expect(try store.contents(digest) == picture(1))
                #expect(store.usage == SpaceUsage.one)
                #expect(filesBelow(path + "/tmp").isEmpty)
                #expect(try store.sweepAll() == 0)
            }
        }
    }

    @Test("a sweep removes orphans and temporary files of other processes, and nothing else")
    func sweep() throws {
        try withDirectory { path in
            var digests: [BlobDigest] = []
            do {
                let store = try BlobStore(counting: path)
                digests = try (1...20).map { try store.put(picture($0)).digest }
            }
            try Data(picture(9)).write(to: URL(filePath: path + "/tmp/dead-1"))
            let foreign = [
                "/blobs/README", "/blobs/\(digests[0].description.prefix(2))/README",
                "/" + BlobFiles.shard(digests[0].shard) + "/" + String(repeating: "F", count: 64),
                "/" + BlobFiles.shard(digests[0].shard) + "/" + String(repeating: "f", count: 64),
            ]
            for name in foreign { try Data("mine".utf8).write(to: URL(filePath: path + name)) }
            let store = try BlobStore(counting: path)
            digests.prefix(5).forEach { store.adopt($0, size: 1000) }
            let writer = try store.begin()
            try writer.append(picture(30))
            #expect(try store.sweepAll() == 16)
            let left = Set(filesBelow(path + "/blobs").keys.filter { $0.count > 60 }.map { String($0.suffix(64)) })
            #expect(left.isSuperset(of: digests.prefix(5).map(\.description)))
            #expect(left.count == 7)
            for name in foreign { #expect(FileManager.default.fileExists(atPath: path + name)) }
            _ = try store.finish(writer)
            #expect(try store.sweepAll() == 0)
            #expect(store.usage.count == 6)
        }
    }

    @Test("symbolic links in the directory are not followed")
    func links() throws {
        try withDirectory { path in
            let digest: BlobDigest
            do { digest = try BlobStore(path: path).put(picture(1)).digest }
            let shard = path + "/" + BlobFiles.shard(digest.shard)
            try FileManager.default.moveItem(atPath: shard, toPath: path + "/elsewhere")
            try FileManager.default.createSymbolicLink(atPath: shard, withDestinationPath: path + "/elsewhere")
            let store = try BlobStore(counting: path)
            store.adopt(digest, size: 1000)
            #expect(throws: ImageError.self) { try store.open(digest) }
            #expect(throws: ImageError.self) { try store.put(picture(1)) }
            #expect(store.release(digest))
            #expect(throws: ImageError.self) { try store.removeUnreferenced(digest) }
            #expect(filesBelow(path + "/elsewhere").count == 1)
        }
    }

    @Test("a digest is exactly 64 lower-case hexadecimal digits")
    func digests() throws {
        let text = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
        #expect(BlobDigest(hex: text)?.description == text)
        for bad in [
            "", text.uppercased(), String(text.dropLast()), text + "0", "../" + text.dropFirst(3),
            "g" + text.dropFirst(),
        ] {
            #expect(BlobDigest(hex: bad) == nil)
        }
        #expect(BlobDigest(hex: text)?.bytes.count == 32)
    }
}
