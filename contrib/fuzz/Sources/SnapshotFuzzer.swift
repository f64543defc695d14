import LarderJSON
@testable import LarderSnapshotFile

/// The input is either a snapshot file, or JSON, a zero byte, and changes to the snapshot file of that JSON. A change
/// has four bytes: an offset of three bytes, and a mask for the byte at the offset.
///
/// The fuzzer checks that each value is found in an unchanged file, and that the reader never reads beyond a file.
@Sendable
func fuzzSnapshot(_ input: UnsafeRawBufferPointer) {
    let parts = parts(input, 2)
    guard let value = try? JSONValue(parsing: parts[0]), value.kind == .object,
        var file = try? SnapshotFileWriter.bytes(of: value, revision: 7, epoch: 1, seed: 0xcbf2_9ce4_8422_2325)
    else { return search(Array(input), [[], [0xFF, 0x61], [0xFF, 0x61, 0xFF, 0x62], [0xFF]]) }
    var paths: [(key: [UInt8], value: JSONValue)] = []
    collect(value, [], &paths)
    file.withUnsafeBytes { bytes in
        guard let index = try? SnapshotFileIndex(bytes) else { fatalError("the writer wrote an invalid snapshot file") }
        for path in paths {
            let found = find(path.key, index, bytes)
            guard let found, let text = try? JSONValue(parsing: Array(bytes[found.text])) else {
                fatalError("a value is not found in the snapshot file")
            }
            require(text == path.value && found.kind == path.value.kind.rawValue, "another value is found")
        }
    }
    var changes = parts[1][...]
    while changes.count >= 4 {
        let place = Int(changes.removeFirst()) | Int(changes.removeFirst()) << 8 | Int(changes.removeFirst()) << 16
        file[place % file.count] ^= changes.removeFirst()
    }
    if parts[1].count >= 4 { search(file, paths.map(\.key)) }
}

private func collect(_ value: JSONValue, _ key: [UInt8], _ paths: inout [(key: [UInt8], value: JSONValue)]) {
    if paths.count < 200 { paths.append((key, value)) }
    for (name, member) in value.members { collect(member, key + [0xFF] + Array(name.utf8), &paths) }
}

/// Finds a key that need not be that of a path.
private func find(
    _ key: [UInt8], _ index: SnapshotFileIndex, _ bytes: UnsafeRawBufferPointer
) -> SnapshotFileIndex.Found? {
    var hash = PathHash(seed: index.seed)
    for byte in key { hash.add(byte) }
    return key.withUnsafeBytes { index.find(PathKey(bytes: $0, hash: hash), in: bytes) }
}

private func search(_ file: [UInt8], _ keys: [[UInt8]]) {
    file.withUnsafeBytes { bytes in
        guard let index = try? SnapshotFileIndex(bytes) else { return }
        for key in keys {
            guard let found = find(key, index, bytes) else { continue }
            require(
                found.text.lowerBound >= 0 && found.text.upperBound <= bytes.count,
                "a value is beyond the end of the file")
            let text = UnsafeRawBufferPointer(rebasing: bytes[found.text])
            _ = (JSONValue.int(ofText: text), ScalarText.bool(text), ScalarText.string(text))
        }
    }
}
