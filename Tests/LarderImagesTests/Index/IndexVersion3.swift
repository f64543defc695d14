import Foundation
import LarderHTTPSemantics
import LarderImageFormats

@testable import LarderImages

/// A cache of version 3: six images with the same bytes. All responses arrived ten seconds before the time at which a
/// ``TestClock`` starts.
enum IndexVersion3 {
    /// A PNG of 3 by 2 pixels.
    static let image: [UInt8] = [
        0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 0x0D, 0x49, 0x48, 0x44, 0x52, 0, 0, 0, 3, 0, 0, 0, 2,
        8, 0, 0, 0, 0, 0xB8, 0x1F, 0x39, 0xC6, 0, 0, 0, 0x0B, 0x49, 0x44, 0x41, 0x54, 0x78, 0xDA, 0x63, 0x60, 0x80, 0,
        0, 0, 8, 0, 1, 0x24, 0xFC, 4, 0x72, 0, 0, 0, 0, 0x49, 0x45, 0x4E, 0x44, 0xAE, 0x42, 0x60, 0x82,
    ]
    private static let digest = "6a4f59d13226ebc501101236d168fcce04192631b50d07985a03b6ded129b2a5"

    /// The tables, and two rows per image: a plain one with a lifetime of 100 seconds, a pinned one whose URL redirects,
    /// two pinned ones with cache keys, the second of which was redirected to another origin, one with a cache key that
    /// a client stored, and one that was fetched with a credential.
    private static let sql = #"""
        CREATE TABLE entry (key BLOB PRIMARY KEY, digest BLOB NOT NULL, size INTEGER NOT NULL,
            freshness BLOB NOT NULL, last_use INTEGER NOT NULL, pinned INTEGER NOT NULL,
            variant INTEGER NOT NULL, type TEXT NOT NULL, width INTEGER NOT NULL,
            height INTEGER NOT NULL, proof INTEGER NOT NULL) STRICT, WITHOUT ROWID;
        CREATE TABLE detail (key BLOB PRIMARY KEY, key_text TEXT NOT NULL, url TEXT NOT NULL,
            frames INTEGER, orientation INTEGER, status INTEGER NOT NULL, fields TEXT NOT NULL, request TEXT NOT NULL,
            request_time INTEGER NOT NULL, response_time INTEGER NOT NULL, stale_since INTEGER,
            animated INTEGER, alpha INTEGER, proof INTEGER NOT NULL) STRICT, WITHOUT ROWID;
        CREATE INDEX restricted ON detail (key_text) WHERE key_text >= 'h';
        PRAGMA user_version = 3;
        INSERT INTO entry VALUES (x'9bdfbe9656f67cc3584fc23ecd0389ef', \#
        x'6a4f59d13226ebc501101236d168fcce04192631b50d07985a03b6ded129b2a5', 68, \#
        x'36420f0000000000640000000000000000000000000000001800', 999990, 0, 0, 'png', 3, 2, -491886781001234805);
        INSERT INTO detail VALUES (x'9bdfbe9656f67cc3584fc23ecd0389ef', '\#nhttps://img.example/plain.png', \#
        'https://img.example/plain.png', 1, NULL, 200, 'cache-control: max-age=100\#netag: "a"\#n', '', 999990, 999990, \#
        NULL, NULL, NULL, -1491945547976566720);
        INSERT INTO entry VALUES (x'd695ffb2f0aa238dd970bb5df5507821', \#
        x'6a4f59d13226ebc501101236d168fcce04192631b50d07985a03b6ded129b2a5', 68, \#
        x'36420f00000000008033e1010000000000000000000000001800', 999990, 1, 0, 'png', 3, 2, -4644259952928294332);
        INSERT INTO detail VALUES (x'd695ffb2f0aa238dd970bb5df5507821', '\#nhttps://img.example/latest.png', \#
        'https://cdn.example/new.png', 1, NULL, 200, 'cache-control: max-age=31536000\#netag: "a"\#n', '', 999990, \#
        999990, NULL, NULL, NULL, 652612427675922808);
        INSERT INTO entry VALUES (x'9517fa3509368fec6004f51ba7af3c9c', \#
        x'6a4f59d13226ebc501101236d168fcce04192631b50d07985a03b6ded129b2a5', 68, \#
        x'36420f00000000008033e1010000000000000000000000001800', 999990, 1, 0, 'png', 3, 2, -1344072517395045314);
        INSERT INTO detail VALUES (x'9517fa3509368fec6004f51ba7af3c9c', '\#nhttps://img.example\#nlogo', \#
        'https://img.example/a/logo.png?sig=1', 1, NULL, 200, 'cache-control: max-age=31536000\#netag: "a"\#n', '', \#
        999990, 999990, NULL, NULL, NULL, 4786028081256086646);
        INSERT INTO entry VALUES (x'c9207c774c738a9cf5b3abb1dd1a606c', \#
        x'6a4f59d13226ebc501101236d168fcce04192631b50d07985a03b6ded129b2a5', 68, \#
        x'36420f00000000008033e1010000000000000000000000001800', 999990, 1, 0, 'png', 3, 2, -276088934599557661);
        INSERT INTO detail VALUES (x'c9207c774c738a9cf5b3abb1dd1a606c', '\#nhttps://img.example\#nbanner', \#
        'https://cdn.example/banner.png', 1, NULL, 200, 'cache-control: max-age=31536000\#netag: "a"\#n', '', 999990, \#
        999990, NULL, NULL, NULL, -8007088844854730266);
        INSERT INTO entry VALUES (x'6ebfb170879a7783b0a107aaa4dc38f6', \#
        x'6a4f59d13226ebc501101236d168fcce04192631b50d07985a03b6ded129b2a5', 68, \#
        x'36420f00000000008033e1010000000000000000000000000000', 999990, 0, 0, 'png', 3, 2, 4140840751931855635);
        INSERT INTO detail VALUES (x'6ebfb170879a7783b0a107aaa4dc38f6', '\#nhttps://img.example\#nchart', \#
        'https://img.example/charts?day=1', 1, NULL, 200, 'cache-control: max-age=31536000\#n', '', 999990, 999990, \#
        NULL, NULL, NULL, 2633753198491586780);
        INSERT INTO entry VALUES (x'747aeb6c977a84348a8f310373a8d397', \#
        x'6a4f59d13226ebc501101236d168fcce04192631b50d07985a03b6ded129b2a5', 68, \#
        x'36420f0000000000640000000000000000000000000000001800', 999990, 0, 0, 'png', 3, 2, -609637875586000201);
        INSERT INTO detail VALUES (x'747aeb6c977a84348a8f310373a8d397', \#
        'https://own.example\#nhttps://own.example/private.png', 'https://own.example/private.png', 1, NULL, 200, \#
        'cache-control: max-age=100\#netag: "a"\#n', '', 999990, 999990, NULL, NULL, NULL, -1089399376461512352);
        ;
        """#

    /// Creates the cache.
    ///
    /// - Parameter name: the name of the database; that of the copy to create a cache whose index is missing
    static func make(_ path: String, as name: String = IndexFormat.index) throws {
        let directory = path + "/blobs/" + digest.prefix(2)
        for directory in [directory, path + "/tmp"] {
            try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        }
        try Data(image).write(to: URL(filePath: directory + "/" + digest))
        try SQLiteDatabase(path: path + "/" + name).run(sql)
    }

    /// Adds an image without a credential, as an agent of version 3 stores it.
    ///
    /// - Parameters:
    ///   - written: the URL as the client wrote it
    ///   - url: the URL that the agent recorded as the one that sent the image
    ///   - lifetime: `max-age` in seconds
    ///   - time: when the response arrived, in seconds since 1970
    static func add(
        _ path: String, _ written: String, from url: String, isPinned: Bool = false, lifetime: Int = 31_536_000,
        at time: Int = 999_990
    ) throws {
        guard let digest = BlobDigest(hex: digest) else { return }
        let header = ImageHeader(.png, width: 3, height: 2, frameCount: 1, orientation: nil)
        let fields = ResponseFields(text: "cache-control: max-age=\(lifetime)\netag: \"a\"\n")
        let response = StoredResponse(
            status: 200, fields: fields, url: url, request: [], requestTime: time, responseTime: time)
        let row = ImageRow(
            keyText: "\n" + written, url: url,
            blob: PublishedBlob(digest: digest, size: image.count, header: header), response: response, lastUse: time,
            isPinned: isPinned)
        let entry = row.entry
        let database = try SQLiteDatabase(path: path + "/" + IndexFormat.index)
        try database.prepare("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)").run([
            .blob(entry.key.bytes), .blob(digest.bytes), .integer(row.size), .blob(entry.freshness.bytes),
            .integer(time), .integer(isPinned ? 1 : 0), .integer(Int(bitPattern: UInt(entry.variant))), .text("png"),
            .integer(3), .integer(2), .integer(RowChecksum.of(entry)),
        ])
        let proof = RowChecksum.of(
            texts: [row.keyText, url, fields.text, ""], numbers: [1, nil, 200, time, time, nil, nil, nil],
            added: [nil, nil])
        try database.prepare("INSERT INTO detail VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)").run([
            .blob(entry.key.bytes), .text(row.keyText), .text(url), .integer(1), .null, .integer(200),
            .text(fields.text), .text(""), .integer(time), .integer(time), .null, .null, .null, .integer(proof),
        ])
    }
}
