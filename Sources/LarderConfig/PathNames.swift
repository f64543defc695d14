import JSON

extension [String] {
    /// Whether a path begins with these names. They are compared as JSON compares them: by their UTF-8, without
    /// normalisation.
    func begins(withNames names: some BidirectionalCollection<String>) -> Bool {
        // Backwards: paths of one configuration mostly begin alike.
        var end = names.count
        if count < end { return false }
        for name in names.reversed() {
            end -= 1
            if !self[end].isSpelled(as: name) { return false }
        }
        return true
    }

    /// A number by which paths that differ are mostly told apart; those that are the same have the same. Whoever wants many to
    /// have one number can do so: they are then compared one by one.
    var fingerprint: Int {
        var fingerprint = PathFingerprint()
        for name in self { fingerprint.append(name) }
        return fingerprint.value
    }

    /// The fingerprints of the paths that lead to this one, without the whole document's.
    var fingerprintsAbove: [Int] {
        var fingerprint = PathFingerprint()
        return dropLast().map { name in
            fingerprint.append(name)
            return fingerprint.value
        }
    }
}

/// The fingerprint of a path, name by name.
private struct PathFingerprint {
    private var hash: UInt64 = 1

    var value: Int { Int(truncatingIfNeeded: hash >> 1) }

    mutating func append(_ name: String) { hash = (hash ^ name.ends) &* 0x9E37_79B9_7F4A_7C15 ^ hash >> 29 }
}

extension String {
    /// Its first and last bytes and their number, mixed.
    fileprivate var ends: UInt64 {
        let mixed = utf8.withContiguousStorageIfAvailable { bytes -> UInt64 in
            var word: UInt64 = 0
            if bytes.count >= 8 {
                let raw = UnsafeRawBufferPointer(bytes)
                word = raw.loadUnaligned(as: UInt64.self)
                word ^= raw.loadUnaligned(fromByteOffset: bytes.count - 8, as: UInt64.self) &* 31
            } else {
                for byte in bytes { word = word << 8 | UInt64(byte) }
            }
            return word ^ UInt64(truncatingIfNeeded: bytes.count) << 56
        }
        return mixed ?? UInt64(utf8.count)
    }
}
