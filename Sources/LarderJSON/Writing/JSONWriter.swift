/// Writes compact JSON in the order of the calls. The writer adds commas and colons. The caller must balance `begin`
/// and `end`, and write a name before each member's value.
package struct JSONWriter: Sendable {
    /// The bytes written so far.
    package internal(set) var bytes: [UInt8] = []
    /// Whether a comma must precede the next value or name.
    var follows = false

    /// Creates an empty writer with room for `reservingCapacity` bytes.
    package init(reservingCapacity: Int = 256) {
        bytes.reserveCapacity(reservingCapacity)
    }

    /// Removes all bytes but keeps the memory for reuse.
    package mutating func removeAll() {
        bytes.removeAll(keepingCapacity: true)
        follows = false
    }

    package mutating func beginObject() { begin(UInt8(ascii: "{")) }
    package mutating func endObject() { end(UInt8(ascii: "}")) }
    package mutating func beginArray() { begin(UInt8(ascii: "[")) }
    package mutating func endArray() { end(UInt8(ascii: "]")) }

    /// Writes the name of the next member.
    package mutating func name(_ name: String) { quote(name, isName: true) }

    /// Writes the name of the next member. The name must not contain characters that JSON escapes.
    package mutating func name(_ name: StaticString) {
        let comma = follows
        follows = false
        append(upTo: Self.room(forName: name)) { Self.write(name, comma: comma, into: $0) - $0 }
    }

    package mutating func string(_ text: String) { quote(text, isName: false) }

    package mutating func string(_ text: StaticString) { quote(text, isName: false) }

    package mutating func int(_ number: Int) { integer(UInt64(number.magnitude), isNegative: number < 0) }

    /// Writes a number in the shortest form that reads back as the same number; `null` for infinities and NaN, which
    /// JSON cannot represent.
    package mutating func double(_ number: Double) {
        guard number.isFinite else { return null() }
        separate()
        bytes.append(contentsOf: number.description.utf8)
    }

    package mutating func bool(_ truth: Bool) { word(truth ? "true" : "false") }

    package mutating func null() { word("null") }

    /// Writes a value in compact form.
    package mutating func value(_ value: JSONValue) {
        separate()
        makeRoom(forLarge: Int(value.entry.length))
        CompactCopy.append(value, to: &bytes)
    }

    /// Writes a complete JSON value that the caller has validated.
    package mutating func raw(_ value: some Sequence<UInt8>) {
        separate()
        bytes.append(contentsOf: value)
    }

    /// Writes a complete JSON value that the caller has validated.
    package mutating func raw(_ value: UnsafeRawBufferPointer) {
        separate()
        makeRoom(forLarge: value.count)
        bytes.append(contentsOf: value)
    }

    private static let largeBytes = 4096

    /// Reserves room for a large value and for the end of the message that contains it. Otherwise writing that end
    /// could enlarge a full array, which would copy the whole value.
    private mutating func makeRoom(forLarge count: Int) {
        if count < Self.largeBytes || bytes.capacity - bytes.count >= count + 256 { return }
        bytes.reserveCapacity(max(bytes.count + count + 256, bytes.capacity * 2))
    }

    /// Appends bytes unchanged, without a comma or colon before or after them.
    package mutating func rawUnframed(_ part: UnsafeRawBufferPointer) {
        guard let start = part.baseAddress, part.count > 0 else { return }
        append(upTo: part.count) { output in
            UnsafeMutableRawPointer(output).copyMemory(from: start, byteCount: part.count)
            return part.count
        }
    }

    /// Appends a text and two parts unchanged. One call is faster than three.
    package mutating func rawUnframed(
        _ text: StaticString, _ part: UnsafeRawBufferPointer, _ rest: UnsafeRawBufferPointer
    ) {
        let count = text.utf8CodeUnitCount
        append(upTo: count &+ part.count &+ rest.count) { output in
            let start = UnsafeMutableRawPointer(output)
            start.copyMemory(from: text.utf8Start, byteCount: count)
            if let bytes = part.baseAddress { (start + count).copyMemory(from: bytes, byteCount: part.count) }
            if let bytes = rest.baseAddress {
                (start + count + part.count).copyMemory(from: bytes, byteCount: rest.count)
            }
            return count &+ part.count &+ rest.count
        }
    }

    /// Appends the digits of a number, without a comma.
    package mutating func rawUnframed(_ number: UInt64) {
        let count = Decimal.digitCount(number)
        append(upTo: count) { output in
            Decimal.write(number, endingAt: output + count)
            return count
        }
    }

    /// Appends a text, the digits of a number, another text and number, and bytes, all unchanged. One call is faster
    /// than five, which matters for thousands of messages.
    package mutating func rawUnframed(
        _ first: StaticString, _ number: UInt64, _ second: StaticString, _ other: UInt64, _ rest: UnsafeRawBufferPointer
    ) {
        let (length, otherLength) = (Decimal.digitCount(number), Decimal.digitCount(other))
        let count = first.utf8CodeUnitCount + length + second.utf8CodeUnitCount + otherLength + rest.count
        append(upTo: count) { output in
            var end = output
            func copy(_ start: UnsafeRawPointer, _ count: Int) {
                UnsafeMutableRawPointer(end).copyMemory(from: start, byteCount: count)
                end += count
            }
            copy(first.utf8Start, first.utf8CodeUnitCount)
            end += length
            Decimal.write(number, endingAt: end)
            copy(second.utf8Start, second.utf8CodeUnitCount)
            end += otherLength
            Decimal.write(other, endingAt: end)
            if let start = rest.baseAddress { copy(start, rest.count) }
            return count
        }
    }

    /// A position in the output, for ``rewind(to:)``.
    package struct Mark: Sendable {
        fileprivate let count: Int
        fileprivate let follows: Bool
    }

    /// The current end of the output.
    package var mark: Mark { Mark(count: bytes.count, follows: follows) }

    /// Removes the output after a mark of this writer.
    package mutating func rewind(to mark: Mark) {
        bytes.removeLast(bytes.count - mark.count)
        follows = mark.follows
    }

    /// The number of bytes written after a mark of this writer.
    package func size(since mark: Mark) -> Int { bytes.count - mark.count }

    /// Ends a line with LF. The next value begins a new document, without a comma.
    package mutating func endLine() {
        bytes.append(UInt8(ascii: "\n"))
        follows = false
    }

    /// Appends a text unchanged, and ends the line.
    package mutating func endLine(after text: StaticString) {
        let count = text.utf8CodeUnitCount
        append(upTo: count &+ 1) { output in
            UnsafeMutableRawPointer(output).copyMemory(from: text.utf8Start, byteCount: count)
            output[count] = UInt8(ascii: "\n")
            return count &+ 1
        }
        follows = false
    }

    package mutating func member(_ name: StaticString, _ text: String) {
        let isWritten: Void? = text.utf8.withContiguousStorageIfAvailable { member(name, UnsafeRawBufferPointer($0)) }
        if isWritten == nil {
            self.name(name)
            string(text)
        }
    }

    private mutating func member(_ name: StaticString, _ text: UnsafeRawBufferPointer) {
        let comma = follows
        let isPlain = append(upTo: Self.room(forName: name) &+ text.count &+ PlainText.frameCount) { output in
            let start = Self.write(name, comma: comma, into: output)
            let count = PlainText.frame(text, into: start, comma: false, colon: false)
            return count == 0 ? 0 : start - output &+ count
        }
        if !isPlain {
            self.name(name)
            quote(text, isName: false)
        }
        follows = true
    }

    package mutating func member(_ name: StaticString, _ number: Int) {
        let (comma, isNegative, magnitude) = (follows, number < 0, UInt64(number.magnitude))
        follows = true
        let digits = Decimal.digitCount(magnitude)
        append(upTo: Self.room(forName: name) + 1 + digits) { output in
            var end = Self.write(name, comma: comma, into: output)
            if isNegative {
                end.pointee = UInt8(ascii: "-")
                end += 1
            }
            Decimal.write(magnitude, endingAt: end + digits)
            return end - output + digits
        }
    }

    package mutating func member(_ name: StaticString, _ truth: Bool) {
        self.name(name)
        bool(truth)
    }

    /// Writes a member with its value in compact form.
    package mutating func member(_ name: StaticString, _ value: JSONValue) {
        let entry = value.entry
        guard entry.has(Node.Flag.clean), entry.length < Self.largeBytes else {
            self.name(name)
            return self.value(value)
        }
        let (comma, start, count) = (follows, value.textStart, Int(entry.length))
        follows = true
        append(upTo: Self.room(forName: name) &+ count) { output in
            let end = Self.write(name, comma: comma, into: output)
            UnsafeMutableRawPointer(end).copyMemory(from: start, byteCount: count)
            return end - output &+ count
        }
    }

    /// Writes a string member. Writes no member for nil.
    package mutating func member(_ name: StaticString, _ text: String?) {
        if let text { member(name, text) }
    }

    /// Writes an integer member. Writes no member for nil.
    package mutating func member(_ name: StaticString, _ number: Int?) {
        if let number { member(name, number) }
    }

    /// Writes a member with its value in compact form. Writes no member for nil.
    package mutating func member(_ name: StaticString, _ value: JSONValue?) {
        if let value { member(name, value) }
    }

    /// Writes an object of four members: a value in compact form, an integer and two strings. One call takes half as many
    /// instructions as a call for each member.
    package mutating func object(
        _ first: StaticString, _ value: JSONValue, _ second: StaticString, _ number: Int, _ third: StaticString,
        _ text: String, _ fourth: StaticString, _ other: String
    ) {
        let isWritten = text.utf8.withContiguousStorageIfAvailable { text in
            other.utf8.withContiguousStorageIfAvailable { other in
                appendObject(
                    first, value, second, number, third, UnsafeRawBufferPointer(text), fourth,
                    UnsafeRawBufferPointer(other))
            }
        }
        if isWritten == true { return }
        beginObject()
        member(first, value)
        member(second, number)
        member(third, text)
        member(fourth, other)
        endObject()
    }

    /// Appends the object. Returns false, and appends nothing, if the value is large or not compact, or if a text needs
    /// escapes.
    private mutating func appendObject(
        _ first: StaticString, _ value: JSONValue, _ second: StaticString, _ number: Int, _ third: StaticString,
        _ text: UnsafeRawBufferPointer, _ fourth: StaticString, _ other: UnsafeRawBufferPointer
    ) -> Bool {
        let entry = value.entry
        guard entry.has(Node.Flag.clean), entry.length < Self.largeBytes else { return false }
        let (comma, start, count, magnitude) = (follows, value.textStart, Int(entry.length), UInt64(number.magnitude))
        let digits = Decimal.digitCount(magnitude)
        let names = Self.room(forName: first) &+ Self.room(forName: second) &+ Self.room(forName: third)
        let texts = text.count &+ other.count &+ 2 &* PlainText.frameCount
        // The other bytes are a comma, the braces and the sign of the number.
        let room = names &+ Self.room(forName: fourth) &+ texts &+ count &+ digits &+ 4
        let isWritten = append(upTo: room) { output in
            output[0] = UInt8(ascii: ",")
            var end = comma ? output + 1 : output
            end[0] = UInt8(ascii: "{")
            end = Self.write(first, comma: false, into: end + 1)
            UnsafeMutableRawPointer(end).copyMemory(from: start, byteCount: count)
            end = Self.write(second, comma: true, into: end + count)
            if number < 0 {
                end[0] = UInt8(ascii: "-")
                end += 1
            }
            Decimal.write(magnitude, endingAt: end + digits)
            end = Self.write(third, comma: true, into: end + digits)
            var length = PlainText.frame(text, into: end, comma: false, colon: false)
            if length == 0 { return 0 }
            end = Self.write(fourth, comma: true, into: end + length)
            length = PlainText.frame(other, into: end, comma: false, colon: false)
            if length == 0 { return 0 }
            end[length] = UInt8(ascii: "}")
            return end - output &+ length &+ 1
        }
        if isWritten { follows = true }
        return isWritten
    }
}

// The methods below that call `append(upTo:_:)` reserve room once and then write directly into the array.
extension JSONWriter {
    /// Writes the name of the next member, copied from a name node of a document.
    mutating func name(_ document: Document, _ node: Int) {
        separate()
        let entry = document.nodes[node]
        bytes.append(
            contentsOf: UnsafeBufferPointer(start: document.text + Int(entry.offset), count: Int(entry.length)))
        bytes.append(UInt8(ascii: ":"))
        follows = false
    }

    /// Writes a comma if one is needed before the next value or name.
    mutating func separate() {
        if follows { bytes.append(UInt8(ascii: ",")) }
        follows = true
    }

    mutating func begin(_ bracket: UInt8) {
        separate()
        bytes.append(bracket)
        follows = false
    }

    mutating func end(_ bracket: UInt8) {
        bytes.append(bracket)
        follows = true
    }

    mutating func word(_ word: StaticString) {
        separate()
        word.withUTF8Buffer { bytes.append(contentsOf: $0) }
    }

    mutating func quote(_ text: String, isName: Bool) {
        var text = text
        text.withUTF8 { quote(UnsafeRawBufferPointer($0), isName: isName) }
    }

    mutating func quote(_ text: StaticString, isName: Bool) {
        text.withUTF8Buffer { quote(UnsafeRawBufferPointer($0), isName: isName) }
    }

    /// The maximum number of bytes that ``write(_:comma:into:)`` writes for a name, including quotation marks, comma
    /// and colon.
    @inline(__always)
    private static func room(forName name: StaticString) -> Int { name.utf8CodeUnitCount &+ PlainText.frameCount }

    /// Writes a name in quotation marks and a colon. Returns the end of the output.
    @inline(__always)
    private static func write(
        _ name: StaticString, comma: Bool, into output: UnsafeMutablePointer<UInt8>
    ) -> UnsafeMutablePointer<UInt8> {
        assert(
            name.withUTF8Buffer { !$0.contains(where: PlainText.isEscaped) },
            "the name contains characters that JSON escapes")
        // Always write the comma. If no comma is needed, the quotation mark overwrites it.
        output[0] = UInt8(ascii: ",")
        let start = comma ? output + 1 : output
        start[0] = UInt8(ascii: "\"")
        UnsafeMutableRawPointer(start + 1).copyMemory(from: name.utf8Start, byteCount: name.utf8CodeUnitCount)
        let end = start + 1 + name.utf8CodeUnitCount
        end[0] = UInt8(ascii: "\"")
        end[1] = UInt8(ascii: ":")
        return end + 2
    }

    /// Appends a string in quotation marks, with a comma before it if needed, and a colon after it if it is a name.
    private mutating func quote(_ text: UnsafeRawBufferPointer, isName: Bool) {
        let comma = follows
        follows = !isName
        let isPlain = append(upTo: text.count + PlainText.frameCount) { output in
            PlainText.frame(text, into: output, comma: comma, colon: isName)
        }
        if isPlain { return }
        if comma { bytes.append(UInt8(ascii: ",")) }
        bytes.append(UInt8(ascii: "\""))
        var start = 0
        while start < text.count {
            let part = UnsafeRawBufferPointer(rebasing: text[start..<min(text.count, start + 256)])
            append(upTo: part.count * EscapedText.growth) { EscapedText.write(part, into: $0) }
            start += part.count
        }
        bytes.append(UInt8(ascii: "\""))
        if isName { bytes.append(UInt8(ascii: ":")) }
    }

    /// Appends an integer, with a comma before it if needed.
    mutating func integer(_ magnitude: UInt64, isNegative: Bool) {
        let comma = follows
        follows = true
        let count = (comma ? 1 : 0) + (isNegative ? 1 : 0) + Decimal.digitCount(magnitude)
        append(upTo: count) { output in
            output[0] = UInt8(ascii: ",")
            if isNegative { output[comma ? 1 : 0] = UInt8(ascii: "-") }
            Decimal.write(magnitude, endingAt: output + count)
            return count
        }
    }

    /// Appends up to `capacity` bytes. `body` writes them and returns their number. Returns false if `body` wrote
    /// nothing.
    @inline(__always) @discardableResult
    private mutating func append(upTo capacity: Int, _ body: (UnsafeMutablePointer<UInt8>) -> Int) -> Bool {
        var written = 0
        bytes.append(addingCapacity: capacity) { span in
            span.withUnsafeMutableBufferPointer { buffer, count in
                guard let base = buffer.baseAddress else { return }
                written = body(base)
                count = written
            }
        }
        return written > 0
    }
}

/// Escapes text for a JSON string. Only the characters for which JSON requires an escape are escaped: the quotation
/// mark, the backslash and control characters. The short escape is used if there is one.
enum EscapedText {
    /// The maximum number of bytes that one byte of text takes when it is escaped.
    static let growth = 6

    /// Writes `text` and returns the number of bytes written. `output` must have room for `growth` times the size of
    /// the text.
    static func write(_ text: UnsafeRawBufferPointer, into output: UnsafeMutablePointer<UInt8>) -> Int {
        var cursor = output
        for byte in text {
            if PlainText.isEscaped(byte) {
                cursor += escape(byte, cursor)
            } else {
                cursor.pointee = byte
                cursor += 1
            }
        }
        return cursor - output
    }

    private static func escape(_ byte: UInt8, _ output: UnsafeMutablePointer<UInt8>) -> Int {
        output[0] = UInt8(ascii: "\\")
        switch byte {
        case 0x08: output[1] = UInt8(ascii: "b")
        case 0x09: output[1] = UInt8(ascii: "t")
        case 0x0A: output[1] = UInt8(ascii: "n")
        case 0x0C: output[1] = UInt8(ascii: "f")
        case 0x0D: output[1] = UInt8(ascii: "r")
        case 0..<0x20:
            output[1] = UInt8(ascii: "u")
            output[2] = UInt8(ascii: "0")
            output[3] = UInt8(ascii: "0")
            output[4] = UInt8(ascii: "0") + byte >> 4
            output[5] = byte & 0xF < 10 ? UInt8(ascii: "0") + byte & 0xF : UInt8(ascii: "a") + byte & 0xF - 10
            return 6
        default: output[1] = byte
        }
        return 2
    }
}
