/// A path in the form in which the index of a snapshot file stores it: for each name, the byte 0xFF followed by the name
/// in UTF-8. The bytes are valid only during the call that receives the key.
struct PathKey {
    let bytes: UnsafeRawBufferPointer
    let hash: PathHash

    /// Calls `body` with the key of a path. The path is empty for the whole document, a JSON Pointer (RFC 6901) if it
    /// begins with `/`, else names separated by dots. If the path is malformed (an empty name between dots, or an
    /// invalid escape), `body` gets nil.
    /// - Parameter seed: the seed of the hash, from the header of the file
    @inline(__always)
    static func with<R>(
        _ path: UnsafeRawBufferPointer, seed: UInt64, _ body: (PathKey?) throws -> R
    ) rethrows -> R {
        try withUnsafeTemporaryAllocation(byteCount: path.count + 1, alignment: 1) { buffer in
            var key = Writer(buffer, seed: seed)
            let isValid =
                path.first == UInt8(ascii: "/") ? key.appendPointer(path) : path.isEmpty || key.appendDotted(path)
            return try body(isValid ? key.key : nil)
        }
    }

    /// Calls `body` with the key of the path that consists of the given names.
    @inline(__always)
    static func with<R>(_ names: [String], seed: UInt64, _ body: (PathKey) throws -> R) rethrows -> R {
        let capacity = names.reduce(0) { $0 + 1 + $1.utf8.count }
        return try withUnsafeTemporaryAllocation(byteCount: capacity, alignment: 1) { buffer in
            var key = Writer(buffer, seed: seed)
            for name in names {
                key.append(SnapshotFileLayout.separator)
                for byte in name.utf8 { key.append(byte) }
            }
            return try body(key.key)
        }
    }

    /// Writes a key, and computes its hash at the same time: the multiplications of the hash take longer than everything
    /// else, so that writing costs no time.
    private struct Writer {
        private let buffer: UnsafeMutableRawBufferPointer
        private var count = 0
        private var hash: PathHash

        /// - Parameter buffer: has room for the whole key
        @inline(__always)
        init(_ buffer: UnsafeMutableRawBufferPointer, seed: UInt64) {
            self.buffer = buffer
            hash = PathHash(seed: seed)
        }

        @inline(__always)
        var key: PathKey {
            PathKey(bytes: UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(buffer)[..<count]), hash: hash)
        }

        @inline(__always)
        mutating func append(_ byte: UInt8) {
            buffer[count] = byte
            hash.add(byte)
            count &+= 1
        }

        /// - Returns: false if a name is empty
        @inline(__always)
        mutating func appendDotted(_ path: UnsafeRawBufferPointer) -> Bool {
            append(SnapshotFileLayout.separator)
            var isNameEmpty = true
            for byte in path {
                let isDot = byte == UInt8(ascii: ".")
                if isDot, isNameEmpty { return false }
                append(isDot ? SnapshotFileLayout.separator : byte)
                isNameEmpty = isDot
            }
            return !isNameEmpty
        }

        /// - Returns: false if an escape is invalid
        mutating func appendPointer(_ path: UnsafeRawBufferPointer) -> Bool {
            var isEscaped = false
            for byte in path {
                switch byte {
                case UInt8(ascii: "0") where isEscaped: append(UInt8(ascii: "~"))
                case UInt8(ascii: "1") where isEscaped: append(UInt8(ascii: "/"))
                case _ where isEscaped: return false
                case UInt8(ascii: "~"):
                    isEscaped = true
                    continue
                case UInt8(ascii: "/"): append(SnapshotFileLayout.separator)
                default: append(byte)
                }
                isEscaped = false
            }
            return !isEscaped
        }
    }
}
