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
