/// Checks a document's text and writes its tape, in one pass and without recursion.
///
/// Its methods are inlined into `index` and their state lives in registers; each that can fail leaves a `failure` and
/// returns false.
struct TapeParser {
    /// An open container, while something inside it is parsed.
    struct Frame {
        /// The container's node.
        var node: UInt32
        /// Members (duplicates included) or elements so far.
        var count: UInt32
        /// object: one bit for each name so far, to notice that a name may have come before.
        var bloom: UInt64
    }

    /// Objects with more members than this, duplicates included, get a `NameTable`; in smaller ones a name is looked
    /// for one by one.
    static let smallObject: UInt32 = 32

    /// Kept alive by the caller of `index`.
    unowned(unsafe) let document: Document
    let maximumDepth: Int
    let text: UnsafePointer<UInt8>
    let end: UnsafePointer<UInt8>
    /// The next byte to look at. It never passes `end`, where a zero byte stands.
    var cursor: UnsafePointer<UInt8>
    var failure: ParseFailure?

    var nodes: UnsafeMutablePointer<Node>
    var capacity: Int
    var used = 0

    /// The innermost open container; the ones around it are in `frames`.
    var container = Frame(node: 0, count: 0, bloom: 0)
    var isInObject = false
    var depth = 0
    var frames: UnsafeMutablePointer<Frame>?
    var frameCapacity: Int

    // Offsets of the last whitespace or duplicate name, and of the last null that is a member: a container that begins
    // after them has none inside.
    var lastUnclean = -1
    var lastNull = -1

    /// Indexes the text that the document holds.
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
        capacity = storage.nodeCapacity
        frames = storage.frames
        frameCapacity = storage.frameCapacity
    }

    /// What the next byte turned out to begin.
    enum Step {
        /// A whole value was read.
        case value
        /// A container was opened; its first member or element comes next.
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
            case .value: if !goOn() { return }
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
