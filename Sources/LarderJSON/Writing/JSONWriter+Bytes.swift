/// How the writer puts its bytes together: each call reserves once and writes straight into the array.
extension JSONWriter {
    /// The name of the member whose value comes next, as another document writes it.
    mutating func name(_ document: Document, _ node: Int) {
        separate()
        let entry = document.nodes[node]
        bytes.append(
            contentsOf: UnsafeBufferPointer(start: document.text + Int(entry.offset), count: Int(entry.length)))
        bytes.append(UInt8(ascii: ":"))
        follows = false
    }

    /// The comma before a value or a name.
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

    /// Appends a string in quotation marks with the comma before it and, after a name, the colon.
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

    /// Appends an integer with the comma before it.
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

    /// Appends bytes as they are.
    mutating func block(_ part: UnsafeRawBufferPointer) {
        guard let start = part.baseAddress, part.count > 0 else { return }
        append(upTo: part.count) { output in
            UnsafeMutableRawPointer(output).copyMemory(from: start, byteCount: part.count)
            return part.count
        }
    }

    /// Appends a number's digits.
    mutating func digits(_ number: UInt64) {
        let count = Decimal.digitCount(number)
        append(upTo: count) { output in
            Decimal.write(number, endingAt: output + count)
            return count
        }
    }

    /// Appends texts with the digits of a number after each, and bytes.
    mutating func blocks(
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

    /// Appends as many bytes as `body` says that it wrote into the room for `capacity`. False if there were none.
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
