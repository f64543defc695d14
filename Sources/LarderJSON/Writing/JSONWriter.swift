/// Writes compact JSON, in the order of the calls. It places the commas and colons; that `begin` and `end` match and
/// that members have names is up to the caller.
public struct JSONWriter: Sendable {
    /// What was written so far.
    public internal(set) var bytes: [UInt8] = []
    /// Whether a value or name that comes now follows another one.
    var follows = false

    /// An empty writer with room for `reservingCapacity` bytes.
    public init(reservingCapacity: Int = 256) {
        bytes.reserveCapacity(reservingCapacity)
    }

    /// Forgets what was written and keeps the memory.
    public mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        follows = false
    }

    public mutating func beginObject() { begin(UInt8(ascii: "{")) }
    /// Ends the innermost object.
    public mutating func endObject() { end(UInt8(ascii: "}")) }
    public mutating func beginArray() { begin(UInt8(ascii: "[")) }
    /// Ends the innermost array.
    public mutating func endArray() { end(UInt8(ascii: "]")) }

    /// The name of the member whose value comes next.
    public mutating func name(_ name: String) { quote(name, isName: true) }

    /// The name of the member whose value comes next.
    public mutating func name(_ name: StaticString) { quote(name, isName: true) }

    public mutating func string(_ text: String) { quote(text, isName: false) }

    public mutating func string(_ text: StaticString) { quote(text, isName: false) }

    public mutating func int(_ number: Int) { integer(UInt64(number.magnitude), isNegative: number < 0) }

    /// A number in the shortest form that reads back as the same; `null` for infinities and NaN, which JSON lacks.
    public mutating func double(_ number: Double) {
        guard number.isFinite else { return null() }
        separate()
        bytes.append(contentsOf: number.description.utf8)
    }

    public mutating func bool(_ truth: Bool) { word(truth ? "true" : "false") }

    public mutating func null() { word("null") }

    /// A value of another document, compact.
    public mutating func value(_ value: JSONValue) {
        separate()
        makeRoom(forLarge: Int(value.entry.length))
        CompactCopy.append(value, to: &bytes)
    }

    /// A complete JSON value, trusted to be one.
    public mutating func raw(_ value: some Sequence<UInt8>) {
        separate()
        bytes.append(contentsOf: value)
    }

    /// A complete JSON value, trusted to be one.
    public mutating func raw(_ value: UnsafeRawBufferPointer) {
        separate()
        makeRoom(forLarge: value.count)
        bytes.append(contentsOf: value)
    }

    /// An array that is full has as much room again made for its next byte: what closes a message behind a large value would
    /// move and hold all of it twice.
    private mutating func makeRoom(forLarge count: Int) {
        if count < 4096 || bytes.capacity - bytes.count >= count + 256 { return }
        bytes.reserveCapacity(max(bytes.count + count + 256, bytes.capacity * 2))
    }

    /// Any bytes, appended as they are: no comma or colon is placed before or after them on their account.
    public mutating func rawUnframed(_ part: UnsafeRawBufferPointer) { block(part) }

    /// The digits of a number, appended as they are.
    public mutating func rawUnframed(_ number: UInt64) { digits(number) }

    /// A text, the digits of a number, both once more, and any bytes, appended as they are: in one step, for what is written
    /// thousands of times.
    public mutating func rawUnframed(
        _ first: StaticString, _ number: UInt64, _ second: StaticString, _ other: UInt64, _ rest: UnsafeRawBufferPointer
    ) { blocks(first, number, second, other, rest) }

    /// A place in what was written, to come back to.
    public struct Mark: Sendable {
        fileprivate let count: Int
        fileprivate let follows: Bool
    }

    /// The place after what was written so far.
    public var mark: Mark { Mark(count: bytes.count, follows: follows) }

    /// Forgets what was written after a mark of this writer.
    public mutating func rewind(to mark: Mark) {
        bytes.removeLast(bytes.count - mark.count)
        follows = mark.follows
    }

    /// How many bytes were written after a mark of this writer.
    public func size(since mark: Mark) -> Int { bytes.count - mark.count }

    /// Ends a line: LF, and the next value begins a new line and document.
    public mutating func endLine() {
        bytes.append(UInt8(ascii: "\n"))
        follows = false
    }
}
