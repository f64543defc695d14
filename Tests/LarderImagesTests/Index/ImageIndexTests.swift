import Foundation
import LarderHTTPSemantics
import LarderImageFormats
import TestSupport
import Testing

@testable import LarderImages

@Suite("Image index")
struct ImageIndexTests {
    /// A row with several response fields and non-ASCII text.
    static func row(_ number: Int, _ blob: PublishedBlob) -> ImageRow {
        let sent = [(name: "Accept", value: "image/avif, image/webp"), (name: "User-Agent", value: "larder")]
        let fields = ResponseFields([
            ("ETag", "\"\(number): ünï\""), ("Cache-Control", "max-age=\(number), stale-if-error=5"),
            ("Cache-Control", "immutable"), ("Vary", number % 2 == 0 ? "Accept, X-None" : ""),
            ("Date", "Sun, 06 Nov 1994 08:49:37 GMT"),
        ])
        // This row has neither `isAnimated` nor `hasAlpha`, so these columns are NULL.
        let header = blob.header
        let stored = ImageHeader(
            header.type, width: header.width, height: header.height, frameCount: header.frameCount,
            orientation: header.orientation)
        return ImageRow(
            keyText: "\nhttps://example.com/\(number)?a=b c%41\u{0}\u{2028}ü", url: "https://cdn.example/\(number)",
            blob: PublishedBlob(digest: blob.digest, size: blob.size, header: stored),
            response: StoredResponse(
                status: 200, fields: fields, url: "https://cdn.example/\(number)", request: sent, requestTime: now - 1,
                responseTime: now + number),
            lastUse: now + number, isPinned: number % 3 == 0)
    }

    static func fill(_ store: BlobStore, _ index: ImageIndex, _ count: Int) throws -> [ImageRow] {
        let rows = try (0..<count).map { row($0, try store.put(picture($0, size: 200))) }
        try index.put(rows)
        return rows
    }

    static func entries(_ rows: [ImageRow]) -> Set<ImageEntry> { Set(rows.map(\.entry)) }

    @Test("rows survive a round trip, before and after a restart")
    func roundTrip() throws {
        try withDirectory { path in
            var rows: [ImageRow] = []
            do {
                let store = try BlobStore(path: path)
                let opened = try ImageIndex.open(in: store)
                #expect(opened.condition == .new)
                #expect(opened.entries.isEmpty)
                rows = try Self.fill(store, opened.index, 20)
                for row in rows { #expect(try opened.index.row(row.key) == row) }
                #expect(try opened.index.row(ImageKey("unknown")) == nil)
            }
            let store = try BlobStore(path: path)
            let opened = try ImageIndex.open(in: store)
            #expect(opened.condition == .whole)
            #expect(Set(opened.entries) == Self.entries(rows))
            for row in rows { #expect(try opened.index.row(row.key) == row) }
            for name in ["index.sqlite", "index.sqlite-wal"] {
                let mode = try FileManager.default.attributesOfItem(atPath: path + "/" + name)[.posixPermissions]
                #expect(mode as? Int == 0o600, "\(name)")
            }
        }
    }

    @Test("rows are replaced, removed, touched, pinned and listed")
    func changes() throws {
        try withDirectory { path in
            let store = try BlobStore(path: path)
            let index = try ImageIndex.open(in: store).index
            var rows = try Self.fill(store, index, 10)
            rows[3].response.staleSince = now
            try index.put([rows[3]])
            #expect(try index.row(rows[3].key) == rows[3])

            try index.remove([rows[0].key, rows[1].key, ImageKey("unknown")])
            #expect(try index.row(rows[0].key) == nil)

            try index.touch([(rows[4].key, now + 5000), (rows[5].key, 7), (rows[0].key, now)])
            rows[4].lastUse = now + 5000
            rows[6].isPinned = false
            rows[7].isPinned = true
            try index.pin(rows[6].key, false)
            try index.pin(rows[7].key, true)
            try index.pin(rows[0].key, true)
            let left = rows.dropFirst(2).sorted { $0.key.description < $1.key.description }
            var listed: [ImageRow] = []
            while true {
                let page = try index.rows(after: listed.last?.key, limit: 3)
                if page.isEmpty || listed.count > left.count { break }
                listed += page
            }
            #expect(listed == left)
        }
    }

    @Test("the database uses no shared memory file, which would cause a SIGBUS on a full disk")
    func noSharedMemory() throws {
        try withDirectory { path in
            let store = try BlobStore(path: path)
            let index = try ImageIndex.open(in: store).index
            _ = try Self.fill(store, index, 3)
            let names = try FileManager.default.contentsOfDirectory(atPath: path)
            #expect(names.contains("index.sqlite-wal"))
            #expect(!names.contains("index.sqlite-shm"))
        }
    }

    @Test("a changed byte of a row is detected, except in the time of last use")
    func changedBytes() throws {
        try withDirectory { path in
            let database = path + "/index.sqlite"
            var rows: [ImageRow] = []
            do {
                let store = try BlobStore(path: path)
                rows = try Self.fill(store, ImageIndex.open(in: store).index, 3)
            }
            let whole = try Data(contentsOf: URL(filePath: database))
            // The offsets in the database of the entry and of the detail of one row.
            let places = [Data(rows[1].digest.bytes), Data(rows[1].url.utf8)].compactMap {
                whole.range(of: $0)?.lowerBound
            }
            #expect(places.count == 2)
            for place in places.flatMap({ ($0 - 60)..<($0 + 90) }) {
                var changed = whole
                changed[place] ^= 1 << UInt8(place % 8)
                for name in ["index.sqlite-wal", "index.sqlite-shm", "index.sqlite.damaged"] {
                    try? FileManager.default.removeItem(atPath: path + "/" + name)
                }
                try changed.write(to: URL(filePath: database))
                let opened = try ImageIndex.open(in: BlobStore(path: path))
                // The index may omit a damaged row, because its image is then downloaded again. A time of last use may
                // be wrong.
                for entry in opened.entries {
                    #expect(rows.contains { $0.entry.isSame(as: entry) }, "byte \(place)")
                }
                for row in rows {
                    // Reading the row may throw an error if a page of the database is damaged.
                    guard var found = try? opened.index.row(row.key) else { continue }
                    found.lastUse = row.lastUse
                    #expect(found == row, "byte \(place)")
                }
            }
        }
    }

    @Test("encoded freshness and keys are decoded, and invalid ones are rejected")
    func freshness() {
        let numbers = ResponseFreshness(Self.row(77, Self.blob).response)
        let copy = numbers.bytes.withUnsafeBytes { ResponseFreshness($0) }
        #expect(copy == numbers)
        #expect([UInt8](repeating: 0xFF, count: 26).withUnsafeBytes { ResponseFreshness($0) } == nil)
        #expect([1, 2, 3].withUnsafeBytes { ResponseFreshness($0) } == nil)
        #expect(ImageKey(hex: ImageKey("x").description) == ImageKey("x"))
        #expect(ImageKey(hex: "+" + ImageKey("x").description.dropFirst()) == nil)
    }

    @Test("an entry compares a request's fingerprint only if its response has Vary, and never matches with Vary: *")
    func fingerprints() {
        let sent = [(name: "Accept", value: "image/webp"), (name: "User-Agent", value: "larder")]
        let number = Variant.fingerprint(of: sent)
        func entry(_ vary: String?) -> ImageEntry {
            let stored = StoredResponse(
                status: 200, fields: ResponseFields(vary.map { [(name: "Vary", value: $0)] } ?? []), url: nil,
                request: sent, requestTime: now, responseTime: now)
            return ImageEntry(
                key: ImageKey("x"), digest: Self.blob.digest, size: 1, freshness: ResponseFreshness(stored), lastUse: 0,
                isPinned: false, variant: stored.variant.fingerprint, type: .png, width: 1, height: 1)
        }
        #expect(entry(nil).matches(number) == true)
        #expect(entry(nil).matches(5) == true)
        #expect(entry("Accept").matches(number) == true)
        #expect(entry("Accept").matches(5) == nil)
        #expect(entry("*").matches(number) == false)
    }

    static var blob: PublishedBlob {
        PublishedBlob(
            digest: BlobDigest([UInt8](repeating: 1, count: 32))!, size: 5,
            header: ImageHeader(.png, width: 1, height: 1, frameCount: 1))
    }

    @Test("the table of images agrees with a dictionary, and reuses the slots of removed images")
    func table() {
        var generator = SeededGenerator(seed: 8)
        var table = ImageTable(capacity: 10)
        var model: [ImageKey: ImageEntry] = [:]
        for step in 0..<3_000 {
            var entry = Self.row(Int.random(in: 0..<200, using: &generator), Self.blob).entry
            entry.lastUse = step
            if Bool.random(using: &generator) {
                let (slot, old) = table.put(entry)
                #expect(old == model.updateValue(entry, forKey: entry.key))
                #expect(slot < 200)
                #expect(table[slot] == entry)
            } else if let slot = table.slot(of: entry.key) {
                #expect(table.remove(slot) == model.removeValue(forKey: entry.key))
                #expect(table[slot] == nil)
                #expect(table.remove(slot) == nil)
            }
            #expect(table.count == model.count)
            #expect(table.inconsistency == nil)
        }
        for (key, entry) in model { #expect(table.slot(of: key).flatMap { table[$0] } == entry) }
        #expect(MemoryLayout<ImageEntry?>.stride <= 104)
        #expect(table[999] == nil)
    }
}

extension ImageIndex.Opened {
    var entries: [ImageEntry] { (0..<table.slotCount).compactMap { table[$0] } }
}

extension ImageEntry {
    fileprivate func isSame(as other: ImageEntry) -> Bool {
        var other = other
        other.lastUse = lastUse
        return self == other
    }
}
