import Crypto
import Glibc
import LarderEncoding
import LarderJSON
@testable import LarderConfigModel
@testable import LarderConfigStorage
import Logging

/// The content of an archive by anybody: the body of a generation, a zero byte, and records of a journal, one in a line. They
/// get the digests that belong to them, or nothing of it would ever be read. What is read is written as the same; a snapshot
/// is only told of where its layers resolve to its digest; and the same archive gives the same layers.
@Sendable
func fuzzArchive(_ input: UnsafeRawBufferPointer) {
    let parts = parts(input, 2)
    let generation = digested(generation: parts[0])
    let journal: [UInt8] = parts[1].split(separator: 0x0A).flatMap { digested(record: Array($0)) } + [0]
    if let read = try? GenerationFile.decode(generation) { roundTrip(read) }
    for line in journal.split(separator: 0x0A) {
        guard let record = JournalRecord(line) else { continue }
        guard let again = JournalRecord(record.encoded().dropLast()[...]) else {
            fatalError("a written record cannot be read")
        }
        require(again.encoded() == record.encoded(), "a record that was written reads as something else")
    }
    let files = MemoryFiles(["a/generations/0000000000000007.json": generation, "a/journal": journal])
    guard let restored = restore(files) else { return }
    for generation in restored.history.generations where generation.journalSequence > 0 || generation.revision != 7 {
        _ = digest(generation.publishedLayers)
    }
    for generation in restored.unwritten {
        require(digest(generation.layers) == generation.digest.text, "a snapshot of which the digest is another")
    }
    guard let again = restore(files) else { fatalError("the same files are read no more") }
    require(
        again.revision == restored.revision && digest(again.layers) == digest(restored.layers),
        "the same files read as something else")
}

private func roundTrip(_ generation: Generation) {
    let encoded = GenerationFile.encode(generation, epoch: "e", namespace: "n")
    guard let again = try? GenerationFile.decode(encoded) else { fatalError("a written generation cannot be read") }
    require(
        GenerationFile.encode(again, epoch: "e", namespace: "n") == encoded,
        "a generation that was written reads as something else")
    require(
        digest(again.layers) == digest(generation.layers), "a generation that was written resolves to something else")
    require(
        digest(again.publishedLayers) == digest(generation.publishedLayers),
        "a generation that was written was published as something else")
    overrides(generation.layers.override)
}

/// The patches of the overrides say together what the entries say one after the other.
private func overrides(_ layer: OverrideLayer) {
    var expected = PlainJSON.object([])
    for entry in layer.entries where entry.path.count <= 32 {
        let patch = entry.path.reversed().reduce(PlainJSON(entry.value)) { value, name in
            .object([.init(name: Array(name.utf8), value: value)])
        }
        expected = expected.patched(patch)
    }
    guard layer.entries.allSatisfy({ $0.path.count <= 32 }) else { return }
    require(PlainJSON(MergePatch.merge(layer.patches())) == expected, "overrides say something else together")
}

private func digested(generation body: [UInt8]) -> [UInt8] {
    let header = JSONValue.object([("format", 1), ("sha256", .string(SHA256.hash(data: body).hex))])
    return header.compactBytes + [0x0A] + body + [0x0A]
}

private func digested(record: [UInt8]) -> [UInt8] {
    Array(SHA256.hash(data: record).hex.utf8.prefix(16)) + [UInt8(ascii: " ")] + record + [0x0A]
}

func digest(_ layers: Layers) -> String { SnapshotDigest.text(of: layers.resolved()) }

func archive(_ files: MemoryFiles) -> ConfigArchive {
    ConfigArchive(
        namespace: "n", epoch: "e", directory: "a", files: files,
        logger: Logger(label: "fuzz") { _ in SwiftLogNoOpLogHandler() })
}

/// What an archive holds; nil where another version of the program wrote it, which is refused as a whole.
func restore(_ files: MemoryFiles) -> RecoveredState? {
    do throws(FileError) {
        return try archive(files).restore()
    } catch {
        if error.errno == ENOTSUP { return nil }
        fatalError("an archive cannot be read at all: \(error)")
    }
}
