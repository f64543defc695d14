/// A JSON value: a view of one place in an immutable document.
///
/// Copying a value copies a reference. A value keeps its whole document in memory; `detached()` gives it one of its
/// own.
public struct JSONValue: Sendable {
    /// The six kinds of RFC 8259, `true` and `false` being one.
    public enum Kind: UInt8, Sendable {
        case null, bool, number, string, array, object
    }

    let document: Document
    private let index: UInt32

    init(document: Document, node: Int) {
        self.document = document
        self.index = UInt32(truncatingIfNeeded: node)
    }

    @inline(__always) var node: Int { Int(index) }
    @inline(__always) var entry: Node { document.nodes[node] }
    @inline(__always) var textStart: UnsafePointer<UInt8> { document.text + Int(entry.offset) }

    public var kind: Kind { Kind(rawValue: UInt8(truncatingIfNeeded: entry.kind)) ?? .null }

    public var isNull: Bool { entry.kind == Node.Kind.null }

    /// The truth value; nil for every other kind.
    public var bool: Bool? {
        let entry = entry
        return entry.kind == Node.Kind.bool ? entry.has(Node.Flag.isTrue) : nil
    }

    /// What the string says, escapes resolved; nil for every other kind.
    public var string: String? {
        entry.kind == Node.Kind.string ? text(of: node) : nil
    }

    /// The number exactly as it was written, such as `-0`, `1e400` or `0.1000`; nil for every other kind.
    public var numberText: String? {
        let entry = entry
        guard entry.kind == Node.Kind.number else { return nil }
        return String(decoding: UnsafeBufferPointer(start: textStart, count: Int(entry.length)), as: UTF8.self)
    }

    /// The number if it is written as an integer (`1`, `-0`, not `1.0` or `1e3`) that fits; nil otherwise.
    public var int: Int? {
        let entry = entry
        guard entry.kind == Node.Kind.number else { return nil }
        let start = textStart
        let negative = start.pointee == UInt8(ascii: "-")
        var result = 0
        for index in (negative ? 1 : 0)..<Int(entry.length) {
            let digit = start[index] &- 0x30
            guard digit < 10 else { return nil }
            let (product, overflow) = result.multipliedReportingOverflow(by: 10)
            let (sum, overflow2) =
                negative
                ? product.subtractingReportingOverflow(Int(digit)) : product.addingReportingOverflow(Int(digit))
            guard !overflow, !overflow2 else { return nil }
            result = sum
        }
        return result
    }

    /// The nearest double-precision number; nil if the value is no number or beyond the range (`1e400`).
    public var double: Double? {
        guard let text = numberText, let value = Double(text), value.isFinite else { return nil }
        return value
    }

    /// The number of elements or of distinct members; 0 for scalars.
    public var count: Int {
        let entry = entry
        guard entry.storedCount == Node.maximumCount else { return Int(entry.storedCount) }
        if entry.has(Node.Flag.indexed) {
            return Int(document.nodes[node + Int(entry.span) - 1].span)
        }
        return elements.reduce(0) { count, _ in count + 1 }
    }

    /// Hands over the value's text exactly as it came in. The bytes are valid during the call only.
    public func withTextBytes<R>(_ body: (UnsafeRawBufferPointer) throws -> R) rethrows -> R {
        try withExtendedLifetime(document) {
            try body(UnsafeRawBufferPointer(start: textStart, count: Int(entry.length)))
        }
    }

    /// The text of a string or name node, escapes resolved.
    func text(of node: Int) -> String {
        Names.withBytes(document.nodes[node], text: document.text) { String(decoding: $0, as: UTF8.self) }
    }
}
