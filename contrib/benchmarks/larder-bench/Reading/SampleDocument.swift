import LarderJSON

/// A typical configuration document: settings by section, lists of servers, flags with dotted names, and text with some
/// escapes and characters beyond ASCII. It is the same on every run.
enum SampleDocument {
    /// Returns compact JSON of at least `count` bytes.
    static func bytes(count: Int) -> [UInt8] {
        var source = Source()
        var writer = JSONWriter(reservingCapacity: count + 4096)
        writer.beginObject()
        writer.member("version", "2024-05-01" as String)
        writer.name("services")
        writer.beginObject()
        var number = 0
        while writer.bytes.count < count * 4 / 5 || number == 0 {
            number += 1
            writer.name("\(source.word())-\(number)")
            service(&source, &writer)
        }
        writer.endObject()
        writer.name("flags")
        writer.beginObject()
        while writer.bytes.count < count {
            number += 1
            writer.name("\(source.word()).\(source.word()).\(number)")
            flag(&source, &writer)
        }
        writer.endObject()
        writer.endObject()
        return writer.bytes
    }

    /// Returns the document of ``bytes(count:)`` without the members that are null, as the agent resolves it (RFC 7396).
    static func configuration(count: Int) throws -> [UInt8] {
        MergePatch.apply(try JSONValue(parsing: bytes(count: count)), to: [:]).compactBytes
    }

    private static func service(_ source: inout Source, _ writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("enabled", source.below(3) > 0)
        writer.member("timeoutMilliseconds", source.below(30_000))
        writer.name("weight")
        writer.double(Double(source.below(100_000)) / 1000)
        writer.name("endpoints")
        writer.beginArray()
        for _ in 0...source.below(4) {
            writer.beginObject()
            writer.member("host", "10.\(source.below(256)).\(source.below(256)).\(source.below(256))")
            writer.member("port", 1024 + source.below(60_000))
            writer.member("zone", ["eu-central-1a", "eu-central-1b", "us-east-1c"][source.below(3)])
            writer.endObject()
        }
        writer.endArray()
        writer.name("labels")
        writer.beginObject()
        for index in 0...source.below(5) {
            writer.name("\(source.word())\(index)")
            writer.string(source.word())
        }
        writer.endObject()
        let ends = ["", " – größer", " \"quoted\"", "\nand a second line", ""]
        let words = (0...5 + source.below(15)).map { _ in source.word() }
        writer.member("description", words.joined(separator: " ") + ends[source.below(ends.count)])
        writer.name("owner")
        if source.below(10) == 0 { writer.null() } else { writer.string(source.word()) }
        writer.endObject()
    }

    private static func flag(_ source: inout Source, _ writer: inout JSONWriter) {
        switch source.below(4) {
        case 0: writer.bool(source.below(2) == 0)
        case 1: writer.int(source.below(1_000_000))
        case 2: writer.string(source.word())
        default:
            writer.beginObject()
            writer.name("rollout")
            writer.double(Double(source.below(1000)) / 1000)
            writer.member("salt", source.word())
            writer.endObject()
        }
    }

    /// Pseudo-random numbers and words (xorshift with a fixed seed).
    private struct Source {
        private var state: UInt64 = 0x2545_F491_4F6C_DD1D

        mutating func below(_ bound: Int) -> Int {
            state ^= state << 13
            state ^= state >> 7
            state ^= state << 17
            return Int(state >> 33) % bound
        }

        mutating func word() -> String {
            let letters = Array("abcdefghijklmnopqrstuvwxyz".unicodeScalars)
            var word = ""
            for _ in 0..<3 + below(9) { word.unicodeScalars.append(letters[below(26)]) }
            return word
        }
    }
}
