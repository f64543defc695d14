import Crypto
import LarderEncoding
import LarderJSON

/// One generation of a namespace, in memory and on disk: every layer whole, and which snapshot they resolve to.
///
/// On disk it is a file of two lines, both JSON, so that an administrator can read them. The first holds the format and the SHA-256 of
/// the second; the second holds everything else, so that no bit of it can change unnoticed.
struct Generation: Sendable {
    static let format = 1

    var revision: Int
    /// The digest of the snapshot that the layers resolve to.
    var digest: SnapshotDigest
    /// In milliseconds since 1970.
    var publishedAt: Int
    /// The last journal record that is contained in the layers.
    var journalSequence: Int
    /// Reservations up to this bound were settled by then; see ``JournalRecord/released``.
    var released: Int
    /// The length of the snapshot's text; nil where an older version of this program did not write it down.
    var bytes: Int?
    /// What the snapshot was published for.
    var causes: [ChangeCause] = []
    /// The epoch that it was written in; nil if it was not read from disk.
    var epoch: String?
    /// The layers as they are, or were when the next snapshot was published.
    var layers: Layers
    /// The layers that the snapshot was published with, where one has changed since without another snapshot.
    var published: Layers?

    /// The layers that the snapshot was published with.
    var publishedLayers: Layers { published ?? layers }

    /// The file's bytes.
    func encoded(epoch: String, namespace: String) -> [UInt8] {
        var body = JSONWriter(reservingCapacity: 4096)
        body.beginObject()
        body.member("format", Self.format)
        body.member("epoch", epoch)
        body.member("namespace", namespace)
        body.member("revision", revision)
        body.member("digest", digest.text)
        body.member("publishedAt", publishedAt)
        body.member("journal", journalSequence)
        body.member("released", released)
        body.member("bytes", bytes)
        body.member("causes", causes)
        body.name("layers")
        layers.write(to: &body)
        if let published {
            body.name("published")
            published.write(to: &body)
        }
        body.endObject()
        var file = JSONWriter(reservingCapacity: body.bytes.count + 128)
        file.beginObject()
        file.member("format", Self.format)
        file.member("sha256", SHA256.hash(data: body.bytes).hex)
        file.endObject()
        file.endLine()
        file.raw(body.bytes)
        file.endLine()
        return file.bytes
    }

    /// Reads a file.
    /// - Throws: ``Damage`` saying what is wrong with it, or that it is of another version of this program. The format is in
    ///   both lines, so that one which changed by itself is told from one that was written.
    init(decoding bytes: [UInt8]) throws(Damage) {
        let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        guard lines.count == 3, lines[2].isEmpty else { throw Damage("it does not have its two lines") }
        let header: JSONValue
        let body: JSONValue
        do {
            header = try JSONValue(parsing: Array(lines[0]))
            guard header["sha256"]?.string == SHA256.hash(data: lines[1]).hex else {
                throw Damage("its content does not have the digest that its header names")
            }
            body = try JSONValue(parsing: Array(lines[1]), maximumDepth: 256)
        } catch let damage as Damage {
            throw damage
        } catch {
            throw Damage("it is not JSON: \(error)")
        }
        guard let format = header["format"]?.int, format == Self.format else {
            let written = header["format"] == body["format"] ? header["format"]?.compactText : nil
            throw Damage("its format is not \(Self.format)", otherFormat: written)
        }
        guard let revision = body["revision"]?.int, let digest = body["digest"]?.string,
            let publishedAt = body["publishedAt"]?.int, let journal = body["journal"]?.int,
            let released = body["released"]?.int, let layers = body["layers"].flatMap(Layers.init),
            [revision, journal, released].allSatisfy(ConfigArchive.possibleNumbers.contains)
        else { throw Damage("a member is missing or cannot be what it says") }
        self.revision = revision
        self.digest = SnapshotDigest(known: digest)
        self.publishedAt = publishedAt
        journalSequence = journal
        self.released = released
        self.bytes = body["bytes"]?.int
        epoch = body["epoch"]?.string
        causes = ChangeCause.list(body["causes"])
        self.layers = layers
        if let published = body["published"] {
            self.published = Layers(published)
            if self.published == nil { throw Damage("what it was published with cannot be what it says") }
        }
    }

    init(
        revision: Int, digest: SnapshotDigest, publishedAt: Int, journalSequence: Int, released: Int, bytes: Int? = nil,
        causes: [ChangeCause] = [], layers: Layers
    ) {
        self.revision = revision
        self.digest = digest
        self.publishedAt = publishedAt
        self.journalSequence = journalSequence
        self.released = released
        self.bytes = bytes
        self.causes = causes
        self.layers = layers
    }

    /// Why a file is not used.
    struct Damage: Error {
        let reason: String
        /// The format of a file that another version of this program wrote; nil if the file is damaged.
        let otherFormat: String?

        init(_ reason: String, otherFormat: String? = nil) {
            self.reason = reason
            self.otherFormat = otherFormat
        }
    }
}
