/// Validates a document's text and writes its tape (the array of ``Node``), in one pass and without recursion.
///
/// The methods are inlined into ``index(_:maximumDepth:)``, so that the compiler can keep their state in registers. A
/// method that fails sets ``failure`` and returns false or `.failed`.
struct TapeParser {
    typealias Frame = Document.Frame

    /// The document. The caller of ``index(_:maximumDepth:)`` keeps it alive.
    unowned(unsafe) let document: Document
    let maximumDepth: Int
    let text: UnsafePointer<UInt8>
    let end: UnsafePointer<UInt8>
    /// The next byte to parse. It never moves past `end`, which points to a zero byte.
    var cursor: UnsafePointer<UInt8>
    var failure: ParseFailure?

    var nodes: UnsafeMutablePointer<Node>
    var capacity: Int
    var used = 0

    /// The innermost open container. The containers around it are in `frames`.
    var container = Frame(node: 0, count: 0, bloom: 0)
    var isInObject = false
    var depth = 0
    var frames: UnsafeMutablePointer<Frame>?
    var frameCapacity: Int

    // The offset of the last whitespace or duplicate name (`lastUnclean`), and of the last null member (`lastNull`);
    // initially -1. A container that begins after `lastUnclean` has no whitespace or duplicate name; one that begins
    // after `lastNull` has no null member.
    var lastUnclean = -1
    var lastNull = -1

    /// Parses the text of a document and writes its tape. Returns nil if the text is valid.
    static func index(_ document: Document, maximumDepth: Int) -> ParseFailure? {
        var parser = TapeParser(document, maximumDepth: maximumDepth)
        parser.parse()
        document.storage.pointee.nodeCount = parser.failure == nil ? parser.used : 0
        return parser.failure
    }

    @inline(always)
    private init(_ document: Document, maximumDepth: Int) {
        let storage = document.storage.pointee
        self.document = document
        self.maximumDepth = maximumDepth
        text = UnsafePointer(storage.text)
        end = text + storage.textCount
        cursor = text
        nodes = storage.nodes
        capacity = storage.nodeLimit
        frames = storage.frames
        frameCapacity = storage.frameCapacity
    }

    /// The result of parsing the next value.
    enum Step {
        /// A complete value was parsed.
        case value
        /// A container was opened. Its first member or element is next.
        case opened
        case failed
    }

    @inline(always)
    private mutating func parse() {
        cursor = Whitespace.end(cursor)
        while true {
            reserve(2)
            if isInObject, !name() { return }
            container.count &+= 1
            skipWhitespace()
            switch value() {
            case .value: if !continueParsing() { return }
            case .opened: continue
            case .failed: return
            }
        }
    }

    @inline(always)
    private mutating func value() -> Step {
        switch cursor.pointee {
        case UInt8(ascii: "\""): return string()
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"): return number()
        case UInt8(ascii: "{"): return open(Node.Kind.object, closing: UInt8(ascii: "}"))
        case UInt8(ascii: "["): return open(Node.Kind.array, closing: UInt8(ascii: "]"))
        case UInt8(ascii: "t"): return literal("true", Literal.true, Node.Kind.bool | Node.Flag.isTrue)
        case UInt8(ascii: "f"): return literal("false", Literal.fals, Node.Kind.bool)
        case UInt8(ascii: "n"):
            if isInObject { lastNull = offset(cursor) }
            return literal("null", Literal.null, Node.Kind.null)
        default:
            fail(.expectedValue)
            return .failed
        }
    }
}

// Writes the tape, and parses arrays and objects.
extension TapeParser {
    /// Ensures that there is room for `count` more nodes.
    @inline(always)
    mutating func reserve(_ count: Int) {
        guard used &+ count > capacity else { return }
        document.extendNodes(used &+ count)
        nodes = document.storage.pointee.nodes
        capacity = document.storage.pointee.nodeLimit
    }

    /// Writes the node of a scalar whose text begins at `start` and ends at the cursor.
    @inline(always)
    mutating func append(_ start: UnsafePointer<UInt8>, _ info: UInt32) {
        nodes[used] = Node(
            offset: UInt32(truncatingIfNeeded: offset(start)), length: UInt32(truncatingIfNeeded: cursor - start),
            span: 1, info: info | Node.Flag.clean)
        used &+= 1
    }

    @inline(always)
    mutating func open(_ kind: UInt32, closing: UInt8) -> Step {
        let start = offset(cursor)
        guard depth < maximumDepth else {
            fail(.tooDeep)
            return .failed
        }
        cursor += 1
        skipWhitespace()
        var node = Node(offset: UInt32(truncatingIfNeeded: start), length: 0, span: 1, info: kind)
        if cursor.pointee == closing {
            cursor += 1
            node.length = UInt32(truncatingIfNeeded: offset(cursor) &- start)
            if lastUnclean < start { node.info |= Node.Flag.clean }
            nodes[used] = node
            used &+= 1
            return .value
        }
        if depth == frameCapacity {
            frames = document.growFrames()
            frameCapacity = document.storage.pointee.frameCapacity
        }
        frames?[depth] = container
        depth &+= 1
        container = Frame(node: UInt32(truncatingIfNeeded: used), count: 0, bloom: 0)
        isInObject = kind == Node.Kind.object
        nodes[used] = node
        used &+= 1
        return .opened
    }

    /// Continues after a value: ends each container whose closing bracket follows, then moves past the comma to the
    /// next element or member of the innermost container that is still open. Returns false at the end of the document
    /// or on an error.
    @inline(always)
    mutating func continueParsing() -> Bool {
        while depth > 0 {
            if cursor.pointee == UInt8(ascii: ",") {
                cursor += 1
                return true
            }
            skipWhitespace()
            if cursor.pointee == UInt8(ascii: ",") {
                cursor += 1
                return true
            }
            guard cursor.pointee == (isInObject ? UInt8(ascii: "}") : UInt8(ascii: "]")) else {
                fail(isInObject ? .expectedCommaInObject : .expectedCommaInArray)
                return false
            }
            cursor += 1
            close()
        }
        cursor = Whitespace.end(cursor)
        if cursor != end { fail(.trailingBytes) }
        return false
    }

    @inline(always)
    mutating func close() {
        let node = Int(container.node)
        let start = Int(nodes[node].offset)
        nodes[node].length = UInt32(truncatingIfNeeded: offset(cursor) &- start)
        if isInObject, container.count > NameTable.smallObject || nodes[node].has(Node.Flag.duplicates) {
            document.storage.pointee.nodeCount = used
            let members = Names.close(document, object: node, members: container.count)
            if members != container.count { lastUnclean = offset(cursor) - 1 }
            container.count = members
            nodes = document.storage.pointee.nodes
            capacity = document.storage.pointee.nodeLimit
            used = document.storage.pointee.nodeCount
        }
        var info = nodes[node].info | min(container.count, Node.maxCount) &<< 8
        if lastUnclean < start { info |= Node.Flag.clean }
        if lastNull >= start { info |= Node.Flag.nullMembers }
        nodes[node].info = info
        nodes[node].span = UInt32(truncatingIfNeeded: used &- node)

        depth &-= 1
        if let frames { container = frames[depth] }
        isInObject = depth > 0 && nodes[Int(container.node)].kind == Node.Kind.object
    }
}

// Parses strings, names, numbers and literals. When one of these methods is called, the cursor is at the first byte of
// the token; on success, the cursor is behind the last byte when the method returns.
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
            lastUnclean = offset(cursor) &- 1
        }
    }

    /// Parses a string, including its quotation marks. Sets `escaped` to whether the string contains a backslash. If
    /// the string is plain ASCII without escapes, leaves `escaped` unchanged.
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

    /// Skips whitespace, then parses a member's name and the colon after it.
    @inline(always)
    mutating func name() -> Bool {
        if cursor.pointee != UInt8(ascii: "\"") {
            skipWhitespace()
            guard cursor.pointee == UInt8(ascii: "\"") else {
                fail(.expectedName)
                return false
            }
        }
        let start = cursor
        var escaped = false
        guard string(&escaped) else { return false }
        let count = cursor - start &- 2
        let hash = escaped ? EscapedString.nameHash(start + 1, count) : NameHash.padded(start + 1, count)
        nodes[used] = Node(
            offset: UInt32(truncatingIfNeeded: offset(start)), length: UInt32(truncatingIfNeeded: cursor - start),
            span: hash, info: Node.Kind.name | (escaped ? Node.Flag.escaped : 0))
        if container.count < NameTable.smallObject {
            let bit: UInt64 = 1 &<< UInt64(hash &>> 26)
            if container.bloom & bit != 0,
                Names.resolveDuplicate(nodes, text: text, object: Int(container.node), name: used)
            {
                lastUnclean = offset(start)
            }
            container.bloom |= bit
        }
        used &+= 1
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

    /// Parses the literal `word`: `true`, `false` or `null`. The caller has checked the first byte. `letters` is the
    /// value of `word` in ``Literal``.
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

/// The first four bytes of each literal as an integer, with the first byte in the lowest bits.
enum Literal {
    @inline(__always) static var `true`: UInt32 { 0x6575_7274 }
    @inline(__always) static var fals: UInt32 { 0x736C_6166 }
    @inline(__always) static var null: UInt32 { 0x6C6C_756E }

    /// The error at the first byte that differs from `word`.
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

/// The whitespace of RFC 8259, section 2.
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
            guard isWhitespace(cursor.pointee) else { return cursor }
            // Eight bytes are checked at a time, for indentation. A word of spaces takes the fewest instructions.
            while Word.load(cursor) == 0x2020_2020_2020_2020 { cursor += 8 }
            let others = Word.notWhitespace(Word.load(cursor))
            if others != 0 { return cursor + (others.trailingZeroBitCount &>> 3) }
            cursor += 8
        }
    }
}

/// Finds the end of a number (RFC 8259, section 6).
enum NumberScanner {
    @inline(__always)
    static func isDigit(_ byte: UInt8) -> Bool { byte &- 0x30 < 10 }

    /// The first byte at or after `start` that is not a digit.
    @inline(__always)
    static func digitsEnd(_ start: UnsafePointer<UInt8>) -> UnsafePointer<UInt8> {
        var cursor = start
        while isDigit(cursor.pointee) { cursor += 1 }
        return cursor
    }

    /// Scans the number at `start`. The caller has checked that its first byte is a digit or a minus sign. Returns the
    /// position after the number, or the position and kind of the error.
    @inline(__always)
    static func end(_ start: UnsafePointer<UInt8>) -> (end: UnsafePointer<UInt8>, failure: ParseFailure.Kind?) {
        var cursor = start
        if cursor.pointee == UInt8(ascii: "-") {
            cursor += 1
            guard isDigit(cursor.pointee) else { return (cursor, .missingDigit) }
        }
        let first = cursor.pointee
        cursor += 1
        if isDigit(cursor.pointee) {
            if first == UInt8(ascii: "0") { return (cursor - 1, .leadingZero) }
            cursor = digitsEnd(cursor + 1)
        }
        if cursor.pointee == UInt8(ascii: ".") {
            cursor += 1
            guard isDigit(cursor.pointee) else { return (cursor, .missingFraction) }
            cursor = digitsEnd(cursor + 1)
        }
        if cursor.pointee | 0x20 == UInt8(ascii: "e") {
            cursor += 1
            if cursor.pointee == UInt8(ascii: "+") || cursor.pointee == UInt8(ascii: "-") { cursor += 1 }
            guard isDigit(cursor.pointee) else { return (cursor, .missingExponent) }
            cursor = digitsEnd(cursor + 1)
        }
        return (cursor, nil)
    }
}
