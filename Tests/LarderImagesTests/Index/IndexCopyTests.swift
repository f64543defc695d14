import Foundation
import LarderHTTPSemantics
import Testing

@testable import LarderImages

@Suite("Index copy")
struct IndexCopyTests {
    /// Ways in which the database can be damaged.
    static let damages: [(String, @Sendable (String) throws -> Void)] = [
        ("garbage", { try Data(repeating: 0x41, count: 5000).write(to: URL(filePath: $0)) }),
        ("empty", { try Data().write(to: URL(filePath: $0)) }),
        ("missing", { try FileManager.default.removeItem(atPath: $0) }),
        ("header", { try overwrite($0, at: 0, with: [UInt8](repeating: 0, count: 100)) }),
        ("pages", { try overwrite($0, at: 4096, with: [UInt8](repeating: 0x5A, count: 40_000)) }),
        ("half", { try Data(contentsOf: URL(filePath: $0)).prefix(6000).write(to: URL(filePath: $0)) }),
    ]

    private static func overwrite(_ path: String, at offset: Int, with bytes: [UInt8]) throws {
        var data = try Data(contentsOf: URL(filePath: path))
        for (index, byte) in bytes.enumerated() where offset + index < data.count { data[offset + index] = byte }
        try data.write(to: URL(filePath: path))
    }

    /// Damages the pages of table `detail`, which is not read at the start.
    private static func damageDetails(_ path: String) throws {
        let data = try Data(contentsOf: URL(filePath: path))
        for offset in stride(from: 4096, to: data.count, by: 4096)
        where data[offset..<offset + 4096].range(of: Data("http".utf8)) != nil {
            try overwrite(path, at: offset, with: [UInt8](repeating: 0x5A, count: 4096))
        }
    }

    private static func copy(_ index: ImageIndex, pages: Int = 3) throws {
        _ = try index.beginCopy()
        while try !index.continueCopy(pages: pages) {}
        try index.copy.publish()
    }

    /// Creates a cache with rows and a copy of its index, and closes the cache.
    private static func makeCopiedIndex(_ path: String, rows count: Int) throws -> [ImageRow] {
        let store = try BlobStore(path: path)
        let index = try ImageIndex.open(in: store).index
        let rows = try ImageIndexTests.fill(store, index, count)
        try copy(index)
        return rows
    }

    /// The rows after a restore at `now`, which makes all of them stale.
    private static func stale(_ rows: some Sequence<ImageRow>) -> [ImageRow] {
        rows.map { row in
            var row = row
            row.response.staleSince = now
            return row
        }
    }

    @Test("a damaged index is restored with its pins, without rows whose blobs are missing", arguments: damages.indices)
    func damage(_ number: Int) throws {
        try withDirectory { path in
            let (name, damage) = Self.damages[number]
            var rows: [ImageRow] = []
            do {
                let store = try BlobStore(path: path)
                let index = try ImageIndex.open(in: store).index
                rows = try ImageIndexTests.fill(store, index, 60)
                try Self.copy(index)
                // This row is written after the copy, so the restore loses it.
                try index.put([ImageIndexTests.row(99, try store.put(picture(99)))])
            }
            try damage(path + "/index.sqlite")
            try FileManager.default.removeItem(atPath: path + "/" + BlobFiles.name(rows[0].digest))
            let short = path + "/" + BlobFiles.name(rows[1].digest)
            try FileManager.default.removeItem(atPath: short)
            try Data(picture(1).prefix(100)).write(to: URL(filePath: short))
            let left = Self.stale(rows.dropFirst(2))
            do {
                let store = try BlobStore(path: path)
                let opened = try ImageIndex.open(in: store, now: now)
                guard case .restored(_, let count, let pins) = opened.condition else {
                    return #expect(Bool(false), "\(name): \(opened.condition)")
                }
                #expect(count == 58, "\(name)")
                #expect(pins == left.count(where: \.isPinned), "\(name)")
                #expect(Set(opened.entries) == ImageIndexTests.entries(left), "\(name)")
                for row in left { #expect(try opened.index.row(row.key) == row) }
                for entry in opened.entries {
                    store.adopt(entry.digest, size: entry.size)
                    #expect(entry.freshness.remaining(at: now) <= 0)
                }
                // The sweep removes two blobs: the one whose row is not in the copy, and the truncated one.
                #expect(try store.sweepAll() == 2, "\(name)")
            }
            let again = try ImageIndex.open(in: BlobStore(path: path))
            #expect(again.condition == .whole)
            #expect(Set(again.entries) == ImageIndexTests.entries(left))
            let isSetAside = FileManager.default.fileExists(atPath: path + "/index.sqlite.damaged")
            #expect(isSetAside == !["empty", "missing"].contains(name), "\(name)")
        }
    }

    @Test("a copy whose table of details is damaged does not prevent the cache from starting")
    func damagedCopy() throws {
        try withDirectory { path in
            _ = try Self.makeCopiedIndex(path, rows: 60)
            try Data(repeating: 0x41, count: 5000).write(to: URL(filePath: path + "/index.sqlite"))
            try Self.damageDetails(path + "/index-copy.sqlite")
            let opened = try ImageIndex.open(in: BlobStore(path: path), now: now)
            guard case .restored(_, let rows, _) = opened.condition else {
                return #expect(Bool(false), "\(opened.condition)")
            }
            #expect(rows == opened.entries.count && rows < 60)
        }
    }

    @Test("an index whose table of details is damaged does not replace a good copy")
    func damagedDetails() throws {
        try withDirectory { path in
            func open() throws -> ImageIndex { try ImageIndex.open(in: BlobStore(path: path)).index }
            _ = try Self.makeCopiedIndex(path, rows: 60)
            try Self.damageDetails(path + "/index.sqlite")
            let copy = URL(filePath: path + "/index-copy.sqlite")
            let before = try Data(contentsOf: copy)
            let index = try open()
            #expect(throws: ImageError.self) { try Self.copy(index) }
            #expect(try Data(contentsOf: copy) == before)
        }
    }

    @Test("damage that is found while the index is in use is repaired from the copy at the next start")
    func damageInUse() throws {
        try withDirectory { path in
            let rows = try Self.makeCopiedIndex(path, rows: 60)
            try Self.damageDetails(path + "/index.sqlite")
            do {
                let opened = try ImageIndex.open(in: BlobStore(path: path))
                #expect(opened.condition == .whole)
                #expect(throws: ImageError.self) { try opened.index.rows(after: nil, limit: 60) }
            }
            for _ in 0..<2 {
                let opened = try ImageIndex.open(in: BlobStore(path: path), now: now)
                #expect(Set(opened.entries) == ImageIndexTests.entries(Self.stale(rows)))
                #expect(try opened.index.rows(after: nil, limit: 60).count == 60)
            }
        }
    }

    @Test("after a kill, the index counts as changed since the last copy")
    func unsavedAfterKill() throws {
        try withDirectory { path in
            do {
                let store = try BlobStore(path: path)
                let index = try ImageIndex.open(in: store).index
                _ = try ImageIndexTests.fill(store, index, 3)
                try Self.copy(index)
                #expect(!index.unsavedChanges.hasPins)
            }
            // The store was not closed cleanly, so the index counts as changed.
            let index = try ImageIndex.open(in: BlobStore(path: path)).index
            #expect(index.unsavedChanges.hasPins)
        }
    }

    @Test("an index with a damaged version number is restored from the copy", arguments: [0, 1, 2])
    func damagedVersion(_ version: UInt8) throws {
        try withDirectory { path in
            let rows = try Self.makeCopiedIndex(path, rows: 5)
            // The version is a number of four bytes at offset 60 (https://sqlite.org/fileformat.html).
            try Self.overwrite(path + "/index.sqlite", at: 60, with: [0, 0, 0, version])
            let opened = try ImageIndex.open(in: BlobStore(path: path), now: now)
            #expect(Set(opened.entries) == ImageIndexTests.entries(Self.stale(rows)))
        }
    }

    @Test("if a restore stops at any file operation, the next start restores all rows")
    func killedWhileRestoring() throws {
        var call = 0
        var isDone = false
        while !isDone {
            try withDirectory { path in
                var rows: [ImageRow] = []
                do {
                    let store = try BlobStore(path: path)
                    let index = try ImageIndex.open(in: store).index
                    rows = try ImageIndexTests.fill(store, index, 5)
                    try Self.copy(index)
                }
                try Data(repeating: 0x41, count: 5000).write(to: URL(filePath: path + "/index.sqlite"))
                do {
                    let files = try FaultyCacheFiles(path)
                    let store = try BlobStore(path: path, files: files)
                    files.arm(.init(call: call, errno: EIO, isLast: true))
                    _ = try? ImageIndex.open(in: store, now: now)
                    isDone = files.calls <= call
                }
                let opened = try ImageIndex.open(in: BlobStore(path: path), now: now)
                #expect(Set(opened.entries) == ImageIndexTests.entries(Self.stale(rows)), "call \(call)")
            }
            call += 1
        }
        #expect(call > 10)
    }

    @Test("if writing a copy stops at any file operation, the previous copy remains complete")
    func killedWhileCopying() throws {
        var call = 0
        var isDone = false
        while !isDone {
            try withDirectory { path in
                var rows: [ImageRow] = []
                do {
                    let files = try FaultyCacheFiles(path)
                    let store = try BlobStore(path: path, files: files)
                    let index = try ImageIndex.open(in: store).index
                    rows = try ImageIndexTests.fill(store, index, 5)
                    try Self.copy(index)
                    files.arm(.init(call: call, errno: EIO, isLast: true))
                    try? Self.copy(index)
                    isDone = files.calls <= call
                }
                try FileManager.default.removeItem(atPath: path + "/index.sqlite")
                let opened = try ImageIndex.open(in: BlobStore(path: path), now: now)
                #expect(Set(opened.entries) == ImageIndexTests.entries(Self.stale(rows)), "call \(call)")
            }
            call += 1
        }
        #expect(call > 5)
    }

    @Test("a copy contains rows that are written while it is made, and has mode 0600")
    func concurrentWrites() throws {
        try withDirectory { path in
            var rows: [ImageRow] = []
            do {
                let store = try BlobStore(path: path)
                let index = try ImageIndex.open(in: store).index
                rows = try ImageIndexTests.fill(store, index, 40)
                #expect(index.unsavedChanges == .init(hasRows: true, hasPins: true))
                _ = try index.beginCopy()
                #expect(index.unsavedChanges == .init())
                #expect(try !index.continueCopy(pages: 2))
                let row = ImageIndexTests.row(100, try store.put(picture(100)))
                try index.put([row])
                rows.append(row)
                while try !index.continueCopy(pages: 2) {}
                try index.copy.publish()
                #expect(index.unsavedChanges == .init(hasRows: true, hasPins: row.isPinned))
                let mode = try FileManager.default.attributesOfItem(atPath: path + "/index-copy.sqlite")
                #expect(mode[.posixPermissions] as? Int == 0o600)
            }
            try FileManager.default.removeItem(atPath: path + "/index.sqlite")
            let opened = try ImageIndex.open(in: BlobStore(path: path), now: now)
            #expect(Set(opened.entries) == ImageIndexTests.entries(Self.stale(rows)))
        }
    }

    @Test("a damaged index does not replace the copy")
    func damagedSource() throws {
        try withDirectory { path in
            var rows: [ImageRow] = []
            do {
                let store = try BlobStore(path: path)
                let index = try ImageIndex.open(in: store).index
                rows = try ImageIndexTests.fill(store, index, 5)
                try Self.copy(index)
                let changes = try index.beginCopy()
                while try !index.continueCopy(pages: 100) {}
                // Damages the copy, as if damaged pages of the index had been copied.
                try Self.overwrite(
                    path + "/index-copy.new", at: 4096, with: [UInt8](repeating: 0x5A, count: 40_000))
                #expect(throws: ImageError.self) { try index.copy.publish() }
                index.abandonCopy(changes)
                #expect(!FileManager.default.fileExists(atPath: path + "/index-copy.new"))
            }
            try FileManager.default.removeItem(atPath: path + "/index.sqlite")
            let opened = try ImageIndex.open(in: BlobStore(path: path), now: now)
            #expect(opened.entries.count == rows.count)
        }
    }

    @Test("a copy is due a day after the last one if rows changed, and within a minute if pins changed")
    func schedule() {
        let (rows, pins) = (ImageIndex.Unsaved(hasRows: true), ImageIndex.Unsaved(hasRows: true, hasPins: true))
        var schedule = IndexCopySchedule(last: nil)
        #expect(!schedule.isDue(.init(), at: now))
        #expect(schedule.isDue(rows, at: now))
        schedule.begin(at: now)
        schedule.succeed(at: now)
        #expect(!schedule.isDue(rows, at: now + 86_399))
        #expect(schedule.isDue(rows, at: now + 86_400))
        #expect(!schedule.isDue(.init(), at: now + 1_000_000))
        #expect(!schedule.isDue(pins, at: now + 10))
        #expect(schedule.isDue(pins, at: now + 30))
        // A failed copy is retried after a pause. Setting the clock back does not delay a copy.
        schedule.begin(at: now + 86_400)
        #expect(!schedule.isDue(rows, at: now + 86_420))
        #expect(schedule.isDue(rows, at: now + 86_430))
        #expect(schedule.isDue(rows, at: now - 100))
    }

    @Test("pins are copied within a minute, all rows at a stop; restored images are stale until revalidated")
    func cache() async throws {
        try await withPath { path in
            let clock = TestClock()
            do {
                let fixture = try await CacheFixture.open(path, clock: clock)
                fixture.origin.answer(picture(1), [("Cache-Control", "max-age=1000"), ("ETag", "\"a\"")])
                try await fixture.get(url(1))
                await fixture.cache.copyIndexIfDue()
                clock.advance(40)
                #expect(try await fixture.cache.pin(fixture.request(url(1)), true))
                await fixture.cache.copyIndexIfDue()
                #expect(await fixture.cache.disk.unsavedChanges == .init())
                fixture.origin.answer(picture(2), [("Cache-Control", "max-age=1000")])
                try await fixture.get(url(2))
                try await fixture.settle()
                #expect(await fixture.cache.disk.unsavedChanges?.hasRows == true)
                await fixture.cache.stop()
                #expect(await fixture.cache.disk.unsavedChanges == .init())
            }
            try Data(repeating: 0x41, count: 5000).write(to: URL(filePath: path + "/index.sqlite"))
            let fixture = try await CacheFixture.open(path, clock: clock)
            #expect(fixture.cache.view.statistics.entries == 2)
            #expect(try await fixture.rows().filter(\.isPinned).map(\.lookup.url) == [url(1)])
            #expect(fixture.cache.view.hit(fixture.request(url(1)), now: clock.now) == nil)
            let restored = try #require(fixture.cache.view.peek(fixture.request(url(1)), now: clock.now))
            #expect(restored.freshness == .stale)
            fixture.origin.answer { _ in .notModified([("Cache-Control", "max-age=1000"), ("ETag", "\"a\"")]) }
            #expect(try await fixture.get(url(1)).freshness == .revalidated)
            let hit = try #require(fixture.cache.view.hit(fixture.request(url(1)), now: clock.now))
            #expect(hit.freshness == .fresh)
            fixture.cache.view.release(hit.digest)
            await fixture.cache.stop()
        }
    }
}
