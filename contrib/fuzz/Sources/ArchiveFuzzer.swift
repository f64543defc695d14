import Glibc
import LarderDigest
import LarderEncoding
import LarderJSON
@testable import LarderConfigModel
@testable import LarderConfigStorage
@testable import LarderPlatform
import Logging

/// The input is the content of an archive: the body of a generation, a zero byte, and journal records, one per line.
///
/// The fuzzer adds correct digests, because the reader would reject almost every input without them. It checks that
/// decoded generations and records survive encoding, that the layers of each snapshot that is only in the journal have
/// the digest of the snapshot, and that restoring the same files twice gives the same layers.
@Sendable
func fuzzArchive(_ input: UnsafeRawBufferPointer) {
    let parts = parts(input, 2)
    let generation = addDigest(toGeneration: parts[0])
    let journal: [UInt8] = parts[1].split(separator: 0x0A).flatMap { addDigest(toRecord: Array($0)) } + [0]
    if let read = try? GenerationFile.decode(generation) { checkRoundTrip(read) }
    for line in journal.split(separator: 0x0A) {
        guard let record = JournalRecord(line) else { continue }
        guard let again = JournalRecord(record.encoded().dropLast()[...]) else {
            fatalError("an encoded record cannot be decoded")
        }
        require(again.encoded() == record.encoded(), "a record changes when it is encoded and decoded")
    }
    let files = MemoryFiles(["a/generations/0000000000000007.json": generation, "a/journal": journal])
    guard let restored = restore(files) else { return }
    for generation in restored.history.generations where generation.journalSequence > 0 || generation.revision != 7 {
        _ = digest(generation.publishedLayers)
    }
    for generation in restored.unwritten {
        require(
            digest(generation.layers) == generation.digest.text, "the digest of a snapshot does not match its layers")
    }
    guard let again = restore(files) else { fatalError("the same files cannot be restored again") }
    require(
        again.revision == restored.revision && digest(again.layers) == digest(restored.layers),
        "the same files give another state")
}

private func checkRoundTrip(_ generation: Generation) {
    let encoded = GenerationFile.encode(generation, epoch: "e", namespace: "n")
    guard let again = try? GenerationFile.decode(encoded) else { fatalError("an encoded generation cannot be decoded") }
    require(
        GenerationFile.encode(again, epoch: "e", namespace: "n") == encoded,
        "a generation changes when it is encoded and decoded")
    require(
        digest(again.layers) == digest(generation.layers),
        "the layers of a generation change when it is encoded and decoded")
    require(
        digest(again.publishedLayers) == digest(generation.publishedLayers),
        "the published layers of a generation change when it is encoded and decoded")
    checkOverrides(generation.layers.override)
}

/// Checks that the merged patches of an override layer have the effect of applying its entries in order.
private func checkOverrides(_ layer: OverrideLayer) {
    var expected = Model.object([])
    for entry in layer.entries where entry.path.count <= 32 {
        let patch = entry.path.reversed().reduce(Model(entry.value)) { value, name in
            .object([.init(name: Array(name.utf8), value: value)])
        }
        expected = expected.patched(patch)
    }
    guard layer.entries.allSatisfy({ $0.path.count <= 32 }) else { return }
    require(
        Model(MergePatch.merge(layer.patches())).isEquivalent(to: expected),
        "the merged overrides differ from the entries applied in order")
}

private func addDigest(toGeneration body: [UInt8]) -> [UInt8] {
    let header = JSONValue.object([("format", 1), ("sha256", .string(SHA256.hash(body).hex))])
    return header.compactBytes + [0x0A] + body + [0x0A]
}

private func addDigest(toRecord record: [UInt8]) -> [UInt8] {
    Array(SHA256.hash(record).hex.utf8.prefix(16)) + [UInt8(ascii: " ")] + record + [0x0A]
}

func digest(_ layers: Layers) -> String { SnapshotDigest.text(of: layers.resolved()) }

func archive(_ files: MemoryFiles) -> ConfigArchive {
    ConfigArchive(
        namespace: "n", epoch: "e", directory: "a", files: files,
        logger: Logger(label: "fuzz") { _ in SwiftLogNoOpLogHandler() })
}

/// Restores an archive. Returns nil if the archive has the format of another version of the program. The restore then
/// rejects the whole archive.
func restore(_ files: MemoryFiles) -> RecoveredState? {
    do throws(FileError) {
        return try archive(files).restore()
    } catch {
        if error.errno == ENOTSUP { return nil }
        fatalError("the archive cannot be restored: \(error)")
    }
}
