internal import CSystemd
import Glibc

/// The fields of one journal entry, in the form that `sd_journal_sendv(3)` takes: "NAME=value" each, binary-safe.
struct JournalEntry {
    /// All fields, one after the other.
    private(set) var bytes: [UInt8] = []
    /// Where each field begins and ends in ``bytes``.
    private(set) var ranges: [Range<Int>] = []

    init() {
        bytes.reserveCapacity(512)
        ranges.reserveCapacity(16)
    }

    /// Adds a field. The value may hold any byte; a line break in it cannot begin another field.
    mutating func add(_ name: String, _ value: String) {
        let start = bytes.count
        bytes.append(contentsOf: name.utf8)
        bytes.append(UInt8(ascii: "="))
        bytes.append(contentsOf: value.utf8)
        ranges.append(start..<bytes.count)
    }

    /// A metadata key as the name of a field: `peerPID` becomes `LARDER_PEER_PID` with the prefix `LARDER_`.
    ///
    /// The journal takes A to Z, 0 to 9 and underscore, at most 64 of them, neither an underscore nor a digit first
    /// (`systemd.journal-fields(7)`; names that begin with an underscore are journald's own and cannot be forged). A
    /// word boundary in camel case and every other character become an underscore. `nil` when nothing is left.
    static func fieldName(_ key: String, prefix: String) -> String? {
        var name: [UInt8] = []
        var previous: UInt8 = 0
        for byte in (prefix + key).utf8 {
            // The bytes of a character beyond ASCII count as one.
            guard byte & 0b1100_0000 != 0b1000_0000 else { continue }
            let isUpper = isBetween(byte, "A", "Z")
            if isUpper, isBetween(previous, "a", "z") || isBetween(previous, "0", "9") {
                name.append(UInt8(ascii: "_"))
            }
            if isUpper || isBetween(byte, "0", "9") {
                name.append(byte)
            } else if isBetween(byte, "a", "z") {
                name.append(byte - 0x20)
            } else {
                name.append(UInt8(ascii: "_"))
            }
            previous = byte
        }
        let usable = name.drop { !isBetween($0, "A", "Z") }.prefix(64)
        guard !key.isEmpty, !usable.isEmpty else { return nil }
        return String(decoding: usable, as: UTF8.self)
    }

    private static func isBetween(_ byte: UInt8, _ low: Unicode.Scalar, _ high: Unicode.Scalar) -> Bool {
        byte >= UInt8(ascii: low) && byte <= UInt8(ascii: high)
    }

    /// Hands the entry to journald. Blocks while journald's socket is full.
    ///
    /// - Returns: 0, also when journald has no socket at all; else an error number of `errno(3)`.
    func send() -> CInt {
        bytes.withUnsafeBytes { buffer in
            guard let base = buffer.baseAddress else { return EINVAL }
            // sd_journal_sendv only reads; iovec has no constant variant.
            let start = UnsafeMutableRawPointer(mutating: base)
            let vectors = ranges.map { iovec(iov_base: start + $0.lowerBound, iov_len: $0.count) }
            return -sd_journal_sendv(vectors, CInt(clamping: vectors.count))
        }
    }
}
