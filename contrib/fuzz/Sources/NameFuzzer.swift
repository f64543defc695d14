import LarderJSON
@testable import LarderSchema

/// The input is a base URI and a reference, separated by a zero byte, or host names. Checks that resolved references are
/// stable.
@Sendable
func fuzzNames(_ input: UnsafeRawBufferPointer) {
    let parts = parts(input, 2).map { String(decoding: $0, as: UTF8.self) }
    if let base = URIReference(parts[0]), let reference = URIReference(parts[1]) {
        let resolved = reference.resolved(against: base)
        require(
            resolved.resolved(against: base).withoutFragment == resolved.withoutFragment || resolved.scheme == nil,
            "a resolved reference changes when it is resolved again: \(resolved.withoutFragment)")
        _ = resolved.decodedFragment
    }
    for part in parts {
        Array(part.utf8).withUnsafeBufferPointer { bytes in
            let isHostname = FormatReader.isHostname(bytes)
            require(!isHostname || bytes.allSatisfy { $0 < 0x80 }, "a host name with other characters than ASCII")
        }
    }
}
