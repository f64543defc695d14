/// Strings, names, numbers and words, each from its first byte to behind its last one.
extension TapeParser {
    @inline(always)
    func offset(_ pointer: UnsafePointer<UInt8>) -> Int { pointer - text }

    @inline(always)
    mutating func fail(_ kind: ParseFailure.Kind) {
        failure = ParseFailure(kind: kind, offset: offset(cursor))
    }

    @inline(always)
    mutating func skipWhitespace() {
        if cursor.pointee <= 0x20, Whitespace.isWhitespace(cursor.pointee) {
            cursor = Whitespace.end(cursor + 1)
            lastUnclean = offset(cursor) - 1
        }
    }

    /// Moves over a string, from its opening quotation mark to behind the closing one. `escaped` says whether there is
    /// a backslash in it.
    @inline(always)
    mutating func string(_ escaped: inout Bool) -> Bool {
        cursor = StringScanner.plainEnd(cursor + 1)
        if cursor.pointee != UInt8(ascii: "\"") {
            let result = StringScanner.finish(cursor, end: end)
            cursor = result.end
            if let kind = result.failure {
                fail(kind)
                return false
            }
            escaped = result.escaped
        }
        cursor += 1
        return true
    }

    /// A member's name and the colon.
    @inline(always)
    mutating func name() -> Bool {
        skipWhitespace()
        let start = cursor
        guard start.pointee == UInt8(ascii: "\"") else {
            fail(.expectedName)
            return false
        }
        var escaped = false
        guard string(&escaped) else { return false }
        let count = cursor - start - 2
        let hash = escaped ? EscapedString.nameHash(start + 1, count) : NameHash.padded(start + 1, count)
        nodes[used] = Node(
            offset: UInt32(truncatingIfNeeded: offset(start)), length: UInt32(truncatingIfNeeded: cursor - start),
            span: hash, info: Node.Kind.name | (escaped ? Node.Flag.escaped : 0))
        if container.count < TapeParser.smallObject {
            let bit: UInt64 = 1 &<< UInt64(hash &>> 26)
            if container.bloom & bit != 0,
                Names.resolveDuplicate(nodes, text: text, object: Int(container.node), name: used)
            {
                lastUnclean = offset(start)
            }
            container.bloom |= bit
        }
        used += 1
        if cursor.pointee != UInt8(ascii: ":") {
            skipWhitespace()
            guard cursor.pointee == UInt8(ascii: ":") else {
                fail(.expectedColon)
                return false
            }
        }
        cursor += 1
        return true
    }

    @inline(always)
    mutating func string() -> Step {
        let start = cursor
        var escaped = false
        guard string(&escaped) else { return .failed }
        append(start, Node.Kind.string | (escaped ? Node.Flag.escaped : 0))
        return .value
    }

    @inline(always)
    mutating func number() -> Step {
        let start = cursor
        let result = NumberScanner.end(start)
        cursor = result.end
        if let kind = result.failure {
            fail(kind)
            return .failed
        }
        append(start, Node.Kind.number)
        return .value
    }

    /// `true`, `false` or `null`, of which the first byte is known. `letters` are its first four.
    @inline(always)
    mutating func literal(_ word: StaticString, _ letters: UInt32, _ info: UInt32) -> Step {
        let start = cursor
        guard Word.load32(start) == letters, word.utf8CodeUnitCount == 4 || start[4] == UInt8(ascii: "e") else {
            failure = Literal.failure(start, word, text: text)
            return .failed
        }
        cursor += word.utf8CodeUnitCount
        append(start, info)
        return .value
    }
}

/// The three words of JSON; of each the first four letters, the first one lowest.
enum Literal {
    @inline(__always) static var `true`: UInt32 { 0x6575_7274 }
    @inline(__always) static var fals: UInt32 { 0x736C_6166 }
    @inline(__always) static var null: UInt32 { 0x6C6C_756E }

    /// The failure at the first byte that differs from `word`.
    @inline(never)
    static func failure(
        _ start: UnsafePointer<UInt8>, _ word: StaticString, text: UnsafePointer<UInt8>
    ) -> ParseFailure {
        let length = word.withUTF8Buffer { letters in
            var index = 0
            while index < letters.count, letters[index] == start[index] { index += 1 }
            return index
        }
        return ParseFailure(kind: .invalidLiteral, offset: start + length - text)
    }
}

/// The four whitespace bytes of RFC 8259, section 2.
enum Whitespace {
    @inline(__always)
    static func isWhitespace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09
    }

    /// The first byte at or after `start` that is not whitespace.
    @inline(__always)
    static func end(_ start: UnsafePointer<UInt8>) -> UnsafePointer<UInt8> {
        var cursor = start
        while true {
            // Indentation is mostly spaces, so eight are taken at once.
            while Word.load(cursor) == 0x2020_2020_2020_2020 { cursor += 8 }
            guard isWhitespace(cursor.pointee) else { return cursor }
            cursor += 1
        }
    }
}
