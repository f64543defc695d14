package import LarderConfigModel
import LarderDigest
import LarderEncoding
import LarderJSON

/// The file of a ``Generation``: two lines of JSON, which an administrator can read. The first line has the format and
/// the SHA-256 of the second line, so that every changed bit is detected. The second line has everything else.
package enum GenerationFile {
    package static let format = 1

    /// Why a file cannot be used.
    struct Damage: Error {
        let reason: String
        /// The format of the file if another version of this program wrote it; nil if the file is damaged.
        var otherFormat: String?
    }

    package static func encode(_ generation: Generation, epoch: String, namespace: String) -> [UInt8] {
        var body = JSONWriter(reservingCapacity: 4096)
        body.beginObject()
        body.member("format", format)
        body.member("epoch", epoch)
        body.member("namespace", namespace)
        body.member("revision", generation.revision)
        body.member("digest", generation.digest.text)
        body.member("publishedAt", generation.publishedAt)
        body.member("journal", generation.journalSequence)
        body.member("released", generation.released)
        body.member("bytes", generation.bytes)
        body.member("causes", generation.causes)
        body.member("layers", generation.layers)
        body.member("published", generation.published)
        body.endObject()
        var file = JSONWriter(reservingCapacity: body.bytes.count + 128)
        file.beginObject()
        file.member("format", format)
        file.member("sha256", SHA256.hash(body.bytes).hex)
        file.endObject()
        file.endLine()
        file.raw(body.bytes)
        file.endLine()
        return file.bytes
    }

    /// Parses a file.
    /// - Throws: ``Damage`` if the file is damaged or another version of this program wrote it. Both lines contain the
    ///   format, so that a damaged format can be distinguished from another version.
    static func decode(_ bytes: [UInt8]) throws(Damage) -> Generation {
        let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        guard lines.count == 3, lines[2].isEmpty else { throw Damage(reason: "it does not have two lines") }
        let header: JSONValue
        let body: JSONValue
        do {
            header = try JSONValue(parsing: Array(lines[0]))
            guard header["sha256"]?.string == SHA256.hash(lines[1]).hex else {
                throw Damage(reason: "its content does not match the digest in its header")
            }
            body = try JSONValue(parsing: Array(lines[1]), maximumDepth: 256)
        } catch let damage as Damage {
            throw damage
        } catch {
            throw Damage(reason: "it is not JSON: \(error)")
        }
        guard header["format"]?.int == format else {
            let written = header["format"] == body["format"] ? header["format"]?.compactText : nil
            throw Damage(reason: "its format is not \(format)", otherFormat: written)
        }
        guard let revision = body["revision"]?.int, let digest = body["digest"]?.string,
            let publishedAt = body["publishedAt"]?.int, let journal = body["journal"]?.int,
            let released = body["released"]?.int, let layers = body["layers"].flatMap(Layers.init),
            [revision, journal, released].allSatisfy(ExactIntegers.range.contains)
        else { throw Damage(reason: "a member is missing or invalid") }
        var published: Layers?
        if let value = body["published"] {
            published = Layers(value)
            if published == nil { throw Damage(reason: "the member \"published\" is invalid") }
        }
        return Generation(
            revision: revision, digest: SnapshotDigest(known: digest), publishedAt: publishedAt,
            journalSequence: journal, released: released, bytes: body["bytes"]?.int,
            causes: ChangeCause.list(body["causes"]), epoch: body["epoch"]?.string, layers: layers,
            published: published)
    }
}
