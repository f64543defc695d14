import Glibc

/// The memory of a document: its text, its tape and the name tables of its large objects.
///
/// `@unchecked Sendable`, because the memory is accessed through pointers. Arrays would add a bounds check to each byte
/// that the parser reads, and could not be read past their end in whole words. Sharing a document is safe, as with
/// copy-on-write, because only the holder of the sole reference (checked with `isKnownUniquelyReferenced`) writes to
/// the memory: before the first value of the document is returned, or after the last one was released.
final class Document: @unchecked Sendable {
    /// The pointers and sizes. They are in separately allocated memory, so that Swift does not check accesses for
    /// exclusivity.
    struct Storage {
        /// `textCount` bytes of JSON, then at least `Document.padding` zero bytes.
        var text: UnsafeMutablePointer<UInt8>
        var textCount: Int
        var textCapacity: Int
        var nodes: UnsafeMutablePointer<Node>
        var nodeCount: Int
        var nodeCapacity: Int
        /// The number of nodes at which the parser checks again whether it is cancelled.
        var nextCheck: Int
        /// The number of nodes that the parser can write before it calls ``Document/extendNodes(_:)``: the smaller one of
        /// the capacity and the number of the next check. One limit for both keeps the checks out of its loop.
        var nodeLimit: Int
        /// Whether the parse was cancelled.
        var isCancelled: Bool
        /// The slots of all name tables, in sequence.
        var slots: UnsafeMutablePointer<UInt32>?
        var slotCount: Int
        var slotCapacity: Int
        /// The open containers during parsing.
        var frames: UnsafeMutablePointer<Frame>?
        var frameCapacity: Int
    }

    /// An open container.
    struct Frame {
        /// The node of the container.
        var node: UInt32
        /// The number of elements, or of members including duplicates, that were parsed so far.
        var count: UInt32
        /// Objects only: a Bloom filter of the names that were parsed so far. If a name's bit is clear, the name is not
        /// a duplicate.
        var bloom: UInt64
    }

    /// The number of zero bytes after the text. Scanners read whole words and stop at a zero byte, so they need no
    /// other bounds check.
    static let padding = 64
    /// The maximum size of a text in bytes, because nodes store 32-bit offsets.
    static let maxTextCount = Int(UInt32.max) - 256

    /// The number of nodes between two checks. To parse them takes less than 1 ms.
    static let nodesPerCheck = 4096

    let storage: UnsafeMutablePointer<Storage>
    /// Returns whether the document that is parsed is not needed any more; nil if that is not checked. Only
    /// ``JSONValue/init(parsing:maximumDepth:unless:)`` sets it, for the time of the parse.
    private var cancellation: (() -> Bool)?

    init(textCapacity: Int, nodeCapacity: Int) {
        storage = .allocate(capacity: 1)
        let text = UnsafeMutablePointer<UInt8>(Memory.allocate(textCapacity + Document.padding, UInt8.self))
        let nodes = Memory.allocate(max(nodeCapacity, 4), Node.self)
        storage.initialize(
            to: Storage(
                text: text, textCount: 0, textCapacity: textCapacity, nodes: nodes, nodeCount: 0,
                nodeCapacity: max(nodeCapacity, 4), nextCheck: .max, nodeLimit: max(nodeCapacity, 4),
                isCancelled: false,
                slots: nil, slotCount: 0, slotCapacity: 0, frames: nil, frameCapacity: 0))
    }

    deinit {
        free(storage.pointee.text)
        free(storage.pointee.nodes)
        free(storage.pointee.slots)
        free(storage.pointee.frames)
        storage.deallocate()
    }

    @inline(__always) var text: UnsafePointer<UInt8> { UnsafePointer(storage.pointee.text) }
    @inline(__always) var nodes: UnsafePointer<Node> { UnsafePointer(storage.pointee.nodes) }

    /// Replaces the text, and removes all nodes and tables. Their memory is kept for reuse.
    func setText(_ bytes: UnsafeRawBufferPointer) {
        storage.pointee.textCount = 0
        storage.pointee.nodeCount = 0
        storage.pointee.slotCount = 0
        reserveText(bytes.count)
        let text = UnsafeMutableRawPointer(storage.pointee.text)
        if let base = bytes.baseAddress, bytes.count > 0 {
            text.copyMemory(from: base, byteCount: bytes.count)
        }
        storage.pointee.textCount = bytes.count
        sealText()
    }

    /// Writes the zero bytes after the text.
    func sealText() {
        memset(storage.pointee.text + storage.pointee.textCount, 0, Document.padding)
    }

    /// Ensures room for `count` bytes of text in total, and for the padding after them.
    @inline(__always)
    func reserveText(_ count: Int) {
        if count > storage.pointee.textCapacity { growText(count) }
    }

    @inline(never)
    private func growText(_ count: Int) {
        let capacity = max(count, storage.pointee.textCapacity * 2)
        storage.pointee.text = Memory.reallocate(storage.pointee.text, capacity + Document.padding)
        storage.pointee.textCapacity = capacity
    }

    /// Ensures room for `count` nodes in total.
    @inline(__always)
    func reserveNodes(_ count: Int) {
        if count > storage.pointee.nodeCapacity { growNodes(count) }
    }

    @inline(never)
    func growNodes(_ count: Int) {
        let capacity = max(count, storage.pointee.nodeCapacity * 2)
        storage.pointee.nodes = Memory.reallocate(storage.pointee.nodes, capacity)
        storage.pointee.nodeCapacity = capacity
        storage.pointee.nodeLimit = min(capacity, storage.pointee.nextCheck)
    }

    // MARK: Cancellation

    /// Calls `parse`, which parses the text; the parse ends early once `isCancelled` has returned true.
    func index(unless isCancelled: @escaping () -> Bool, _ parse: (Document) -> ParseFailure?) -> ParseFailure? {
        cancellation = isCancelled
        setNextCheck(Document.nodesPerCheck)
        defer {
            cancellation = nil
            setNextCheck(.max)
        }
        let failure = parse(self)
        guard storage.pointee.isCancelled else { return failure }
        return ParseFailure(kind: .cancelled, offset: failure?.offset ?? storage.pointee.textCount)
    }

    private func setNextCheck(_ count: Int) {
        storage.pointee.nextCheck = count
        storage.pointee.nodeLimit = min(storage.pointee.nodeCapacity, count)
    }

    /// Ensures room for `count` nodes in total, and checks whether the parse is cancelled if that is due.
    @inline(never)
    func extendNodes(_ count: Int) {
        if count > storage.pointee.nextCheck {
            checkCancellation()
            setNextCheck(count + Document.nodesPerCheck)
        }
        reserveNodes(count)
    }

    /// If the parse is cancelled, ends it: replaces the text by zero bytes, which the parser rejects at its position.
    func checkCancellation() {
        guard !storage.pointee.isCancelled, cancellation?() == true else { return }
        storage.pointee.isCancelled = true
        memset(storage.pointee.text, 0, storage.pointee.textCount)
    }

    /// Appends `count` empty slots for a name table. Returns the index of the first one.
    @inline(never)
    func appendSlots(_ count: Int) -> Int {
        let start = storage.pointee.slotCount
        if start + count > storage.pointee.slotCapacity {
            let capacity = max(start + count, storage.pointee.slotCapacity * 2)
            storage.pointee.slots = Memory.reallocate(storage.pointee.slots, capacity)
            storage.pointee.slotCapacity = capacity
        }
        if let slots = storage.pointee.slots { (slots + start).update(repeating: 0, count: count) }
        storage.pointee.slotCount = start + count
        return start
    }

    /// Doubles the capacity of the stack of open containers.
    @inline(never)
    func growFrames() -> UnsafeMutablePointer<Frame> {
        let capacity = max(8, storage.pointee.frameCapacity * 2)
        let frames = Memory.reallocate(storage.pointee.frames, capacity)
        storage.pointee.frames = frames
        storage.pointee.frameCapacity = capacity
        return frames
    }

    /// Frees the memory that is allocated but not used. Called for documents that will not be reused for another text.
    func trim() {
        free(storage.pointee.frames)
        storage.pointee.frames = nil
        storage.pointee.frameCapacity = 0
        let nodeCount = max(4, storage.pointee.nodeCount)
        if storage.pointee.nodeCapacity - nodeCount > nodeCount / 8 + 8 {
            storage.pointee.nodes = Memory.reallocate(storage.pointee.nodes, nodeCount)
            storage.pointee.nodeCapacity = nodeCount
            storage.pointee.nodeLimit = nodeCount
        }
        let textCount = storage.pointee.textCount
        if storage.pointee.textCapacity - textCount > textCount / 8 + 64 {
            storage.pointee.text = Memory.reallocate(storage.pointee.text, textCount + Document.padding)
            storage.pointee.textCapacity = textCount
        }
    }
}

/// Typed malloc(3) and realloc(3). realloc(3) moves large blocks by remapping their pages, which Swift's allocation
/// functions do not.
enum Memory {
    static func allocate<T: BitwiseCopyable>(_ count: Int, _ type: T.Type) -> UnsafeMutablePointer<T> {
        reallocate(nil, count)
    }

    static func reallocate<T: BitwiseCopyable>(
        _ old: UnsafeMutablePointer<T>?, _ count: Int
    ) -> UnsafeMutablePointer<T> {
        guard let raw = realloc(old, max(count, 1) * MemoryLayout<T>.stride) else {
            // Swift programs generally cannot recover when the system refuses memory.
            preconditionFailure("out of memory")
        }
        return raw.assumingMemoryBound(to: T.self)
    }
}

/// An entry of a document's tape: 16 bytes with the position of a value's text and the number of entries in its
/// subtree.
///
/// The nodes are in the order of the text. The node of an object is followed by a name node and a value node for each
/// member, the node of an array by its elements. An object with many members ends with a `table` node (see
/// ``NameTable``). All distances are relative, so a subtree can be copied to another tape.
@usableFromInline
struct Node: BitwiseCopyable {
    /// The kinds of nodes: the raw values of ``JSONValue/Kind``, and two kinds that are not values.
    @usableFromInline
    enum Kind {
        static let null: UInt32 = 0
        static let bool: UInt32 = 1
        static let number: UInt32 = 2
        static let string: UInt32 = 3
        @inlinable static var array: UInt32 { 4 }
        @inlinable static var object: UInt32 { 5 }
        static let name: UInt32 = 6
        static let table: UInt32 = 7
        @inlinable static var mask: UInt32 { 7 }
    }

    /// Flags in `info`. The meaning of a bit depends on the kind of node.
    @usableFromInline
    enum Flag {
        /// bool: the value is `true`.
        @inlinable static var isTrue: UInt32 { 1 << 3 }
        /// string, name: the text contains a backslash.
        @inlinable static var escaped: UInt32 { 1 << 3 }
        /// null: the program has made the value of an infinity or NaN. container: the container has such a member or
        /// element, at any depth. Parsing sets no such flag.
        static let notFinite: UInt32 = 1 << 3
        /// value: the text has no whitespace between tokens and no duplicate members, at any depth, so it is compact.
        /// Always set for scalars.
        static let clean: UInt32 = 1 << 4
        /// container: the container, or an object in it, may have a null member. If the flag is clear, there is no null
        /// member at any depth.
        static let nullMembers: UInt32 = 1 << 5
        /// name: the name occurs earlier in this object, so this node is skipped.
        @inlinable static var later: UInt32 { 1 << 6 }
        /// object: set if the last node in the subtree of the object is a `table`.
        @inlinable static var indexed: UInt32 { 1 << 6 }
        /// name: the name occurs again later. `span` is the distance to the last name node with this name.
        @inlinable static var redirected: UInt32 { 1 << 7 }
        /// object of few members, during parsing: the object has duplicate members.
        static let duplicates: UInt32 = 1 << 7
    }

    /// The largest count that `info` can store. It means "this many or more".
    static let maxCount: UInt32 = 0xFF_FFFF

    /// value, name: the start of the text, including the quotation mark. table: the index of the first slot.
    @usableFromInline var offset: UInt32
    /// value, name: the size of the text in bytes, including quotation marks. table: the number of slots, a power of
    /// two.
    @usableFromInline var length: UInt32
    /// value: the number of nodes in the subtree, including this one. name: its ``NameHash``, or a distance if
    /// `redirected`. table: the number of distinct names.
    @usableFromInline var span: UInt32
    /// The kind in the lowest three bits, then the flags. From bit 8 on: the number of elements or distinct members.
    @usableFromInline var info: UInt32

    @inlinable @inline(__always) var kind: UInt32 { info & Kind.mask }
    @inlinable @inline(__always) func has(_ flag: UInt32) -> Bool { info & flag != 0 }
    @inlinable @inline(__always) var storedCount: UInt32 { info >> 8 }
}
