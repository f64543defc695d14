import Foundation
import LarderHTTPSemantics
import LarderImageFormats
import Testing

@testable import LarderImages

/// The disk format is published. A change needs a new version, a migration, and a test that reads these bytes.
@Suite("Index format")
struct IndexFormatTests {
    /// A row in which every column has a value.
    private static let row = ImageRow(
        keyText: "https://img.example\nhttps://img.example/a.png?b=ü", url: "https://cdn.example/a.png",
        blob: PublishedBlob(
            digest: BlobDigest([UInt8](0..<32))!, size: 1234,
            header: ImageHeader(
                .jpeg, width: 30, height: 20, frameCount: 2, orientation: 6, isAnimated: true, hasAlpha: false)),
        response: StoredResponse(
            status: 203,
            fields: ResponseFields([("Cache-Control", "max-age=60"), ("ETag", "\"a\""), ("Vary", "Accept")]),
            url: "https://cdn.example/a.png", variant: Variant(vary: "Accept", request: [("Accept", "image/*")]),
            requestTime: 1_700_000_000, responseTime: 1_700_000_001, redirectEnd: 1_700_000_040,
            staleSince: 1_700_000_050),
        lastUse: 1_700_000_100, isPinned: true)

    /// The tables, and the values of the row above as quote() of SQLite writes them.
    private static let golden = #"""
        CREATE TABLE detail (key BLOB PRIMARY KEY, key_text TEXT NOT NULL, url TEXT NOT NULL, frames \#
        INTEGER, orientation INTEGER, status INTEGER NOT NULL, fields TEXT NOT NULL, request TEXT NOT NULL, \#
        request_time INTEGER NOT NULL, response_time INTEGER NOT NULL, stale_since INTEGER, animated INTEGER, \#
        alpha INTEGER, proof INTEGER NOT NULL, sender INTEGER, redirect_end INTEGER) STRICT, WITHOUT ROWID;
        CREATE TABLE entry (key BLOB PRIMARY KEY, digest BLOB NOT NULL, size INTEGER NOT NULL, freshness \#
        BLOB NOT NULL, last_use INTEGER NOT NULL, pinned INTEGER NOT NULL, variant INTEGER NOT NULL, type \#
        TEXT NOT NULL, width INTEGER NOT NULL, height INTEGER NOT NULL, proof INTEGER NOT NULL) STRICT, \#
        WITHOUT ROWID;
        CREATE INDEX restricted ON detail (key_text) WHERE key_text >= 'h';
        -- entry.key = X'FFC54683B5A29D3B23974B4B770BB1BE'
        -- entry.digest = X'000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F'
        -- entry.size = 1234
        -- entry.freshness = X'01F1536500000000280000000100000000000000000000001800'
        -- entry.last_use = 1700000100
        -- entry.pinned = 1
        -- entry.variant = 9110542206416203807
        -- entry.type = 'jpeg'
        -- entry.width = 30
        -- entry.height = 20
        -- entry.proof = 370023048042016070
        -- detail.key = X'FFC54683B5A29D3B23974B4B770BB1BE'
        -- detail.key_text = 'https://img.example\nhttps://img.example/a.png?b=ü'
        -- detail.url = 'https://cdn.example/a.png'
        -- detail.frames = 2
        -- detail.orientation = 6
        -- detail.status = 203
        -- detail.fields = 'cache-control: max-age=60\netag: "a"\nvary: Accept\n'
        -- detail.request = 'accept: image/*\n'
        -- detail.request_time = 1700000000
        -- detail.response_time = 1700000001
        -- detail.stale_since = 1700000050
        -- detail.animated = 1
        -- detail.alpha = 0
        -- detail.proof = 1225724246579492567
        -- detail.sender = 1
        -- detail.redirect_end = 1700000040
        -- user_version = 4
        """#

    private static func sql(_ path: String) throws -> String {
        let database = try SQLiteDatabase(path: path)
        var lines: [String] = []
        try database.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name").run { row in
            lines.append(row.text(0).split(whereSeparator: \.isWhitespace).joined(separator: " ") + ";")
        }
        for table in ["entry", "detail"] {
            var columns: [String] = []
            try database.prepare("SELECT name FROM pragma_table_info('\(table)')").run { columns.append($0.text(0)) }
            for column in columns {
                try database.prepare("SELECT quote(\(column)) FROM \(table)").run { row in
                    lines.append("-- \(table).\(column) = \(row.text(0).replacing("\n", with: "\\n"))")
                }
            }
        }
        try database.prepare("PRAGMA user_version").run { lines.append("-- user_version = \($0.integer(0))") }
        return lines.joined(separator: "\n")
    }

    @Test("the schema and an encoded row match the published format")
    func golden() throws {
        try withDirectory { path in
            do { try ImageIndex.open(in: BlobStore(path: path)).index.put([Self.row]) }
            let found = try Self.sql(path + "/index.sqlite")
            #expect(found == Self.golden, "\(found)")
            #expect(try ImageIndex.open(in: BlobStore(path: path)).index.row(Self.row.key) == Self.row)
        }
    }

    @Test(
        "an index or a copy of a newer agent is refused, and nothing in the directory changes",
        arguments: [
            "index.sqlite", "index-copy.sqlite",
        ])
    func newer(_ name: String) throws {
        try withDirectory { path in
            do {
                let store = try BlobStore(path: path)
                let index = try ImageIndex.open(in: store).index
                _ = try ImageIndexTests.fill(store, index, 3)
                _ = try index.beginCopy()
                while try !index.continueCopy(pages: 100) {}
                try index.copy.publish()
                try store.markClean()
            }
            do { try SQLiteDatabase(path: path + "/" + name).run("PRAGMA user_version = 5") }
            let before = filesBelow(path)
            let error = #expect(throws: ImageError.self) { try IndexFormat.refuseNewer(in: path) }
            #expect(error?.code == .newerIndex)
            #expect(error?.message.contains("\(name)\" has format 5, and this agent reads format 4") == true)
            #expect(filesBelow(path) == before)
        }
    }

    @Test("the header of a new index contains the version immediately")
    func header() throws {
        try withDirectory { path in
            let store = try BlobStore(path: path)
            let opened = try ImageIndex.open(in: store)
            let header = try #require(FileManager.default.contents(atPath: path + "/index.sqlite")?.prefix(64))
            #expect(header.suffix(4).elementsEqual([0, 0, 0, 4]))
            #expect(opened.condition == .new)
        }
    }

    @Test("an index with the number of a version that was never published counts as damaged", arguments: [1, 2])
    func unpublished(_ version: Int) throws {
        try withDirectory { path in
            do {
                let store = try BlobStore(path: path)
                _ = try ImageIndexTests.fill(store, ImageIndex.open(in: store).index, 3)
                try store.markClean()
            }
            do { try SQLiteDatabase(path: path + "/index.sqlite").run("PRAGMA user_version = \(version)") }
            let opened = try ImageIndex.open(in: BlobStore(path: path))
            #expect(opened.condition == .restored(reason: "its version number is damaged", rows: 0, pins: 0))
            #expect(opened.entries.isEmpty)
            #expect(FileManager.default.fileExists(atPath: path + "/index.sqlite.damaged"))
        }
    }
}
