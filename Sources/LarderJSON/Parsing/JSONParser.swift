/// A JSON parser that reuses its memory for the next document.
///
/// It accepts strict RFC 8259: one value, UTF-8 without a byte order mark, no comments, no trailing commas. If several
/// members of an object have the same name, only the last one counts.
package struct JSONParser: Sendable {
    /// The default nesting limit.
    package static let defaultMaximumDepth = 128

    /// The memory of the previous document is not reused if it exceeds this number of bytes and the next document needs
    /// much less.
    private static let keptBytes = 256 * 1024

    private let maximumDepth: Int
    private var document = Document(textCapacity: 0, nodeCapacity: 0)

    /// Creates a parser that rejects arrays and objects nested deeper than `maximumDepth`.
    package init(maximumDepth: Int = JSONParser.defaultMaximumDepth) {
        self.maximumDepth = max(0, maximumDepth)
    }

    /// Parses a copy of `bytes`.
    ///
    /// The parser reuses the memory of the document that it parsed before, if no value of that document is referenced
    /// any more. If the new document is not larger, parsing then allocates nothing. To keep a value for a long time,
    /// keep a copy made with ``JSONValue/detached()``.
    ///
    /// - Throws: ``JSONError`` with the offset of the first invalid byte
    package mutating func parse(_ bytes: UnsafeRawBufferPointer) throws(JSONError) -> JSONValue {
        guard bytes.count <= Document.maxTextCount else {
            throw ParseFailure(kind: .tooLarge, offset: Document.maxTextCount)
                .error(in: bytes, maximumDepth: maximumDepth)
        }
        if !isReusable(for: bytes.count) {
            document = Document(textCapacity: max(bytes.count, 512), nodeCapacity: max(bytes.count / 8, 64))
        }
        let target = document
        target.setText(bytes)
        if let failure = TapeParser.index(target, maximumDepth: maximumDepth) {
            throw failure.error(in: bytes, maximumDepth: maximumDepth)
        }
        return JSONValue(document: target, node: 0)
    }

    private mutating func isReusable(for count: Int) -> Bool {
        guard isKnownUniquelyReferenced(&document) else { return false }
        let storage = document.storage.pointee
        let capacity = storage.textCapacity + storage.nodeCapacity * MemoryLayout<Node>.stride
        return capacity <= JSONParser.keptBytes || capacity / 64 <= count
    }
}

extension JSONValue {
    /// Parses bytes into a new document. Arrays and objects may be nested 128 levels deep.
    ///
    /// - Throws: ``JSONError`` with the offset of the first invalid byte
    public init(parsing bytes: [UInt8]) throws(JSONError) {
        try self.init(parsing: bytes, maximumDepth: JSONParser.defaultMaximumDepth)
    }

    /// Parses a text into a new document. Arrays and objects may be nested 128 levels deep.
    ///
    /// - Throws: ``JSONError`` with the offset of the first invalid character, in UTF-8 bytes
    public init(parsing text: String) throws(JSONError) {
        try self.init(parsing: text, maximumDepth: JSONParser.defaultMaximumDepth)
    }

    /// Parses bytes into a new document.
    ///
    /// - Throws: ``JSONError`` with the offset of the first invalid byte
    package init(parsing bytes: [UInt8], maximumDepth: Int) throws(JSONError) {
        let result: Result<JSONValue, JSONError> = bytes.withUnsafeBytes { JSONValue.parse($0, maximumDepth) }
        self = try result.get()
    }

    /// Parses a text into a new document.
    ///
    /// - Throws: ``JSONError`` with the offset of the first invalid character, in UTF-8 bytes
    package init(parsing text: String, maximumDepth: Int) throws(JSONError) {
        var text = text
        let result: Result<JSONValue, JSONError> = text.withUTF8 {
            JSONValue.parse(UnsafeRawBufferPointer($0), maximumDepth)
        }
        self = try result.get()
    }

    /// Parses bytes into a new document, and ends early once the result is not needed any more.
    ///
    /// - Parameter isCancelled: returns whether the result is not needed any more; called about once for each 4096
    ///   values and names
    /// - Throws: ``JSONError`` with the offset of the first invalid byte; `CancellationError`
    package init(
        parsing bytes: [UInt8], maximumDepth: Int = JSONParser.defaultMaximumDepth,
        unless isCancelled: @escaping () -> Bool
    ) throws {
        let result: Result<JSONValue, any Error> = bytes.withUnsafeBytes { bytes in
            let (document, failure) = JSONValue.document(bytes, maximumDepth, unless: isCancelled)
            guard let failure else { return .success(JSONValue(document: document, node: 0)) }
            return .failure(
                failure.kind == .cancelled
                    ? CancellationError() : failure.error(in: bytes, maximumDepth: maximumDepth))
        }
        self = try result.get()
    }

    static func parse(_ bytes: UnsafeRawBufferPointer, _ maximumDepth: Int) -> Result<JSONValue, JSONError> {
        let (document, failure) = document(bytes, maximumDepth, unless: nil)
        if let failure { return .failure(failure.error(in: bytes, maximumDepth: maximumDepth)) }
        return .success(JSONValue(document: document, node: 0))
    }

    private static func document(
        _ bytes: UnsafeRawBufferPointer, _ maximumDepth: Int, unless isCancelled: (() -> Bool)?
    ) -> (Document, ParseFailure?) {
        guard bytes.count <= Document.maxTextCount else {
            let failure = ParseFailure(kind: .tooLarge, offset: Document.maxTextCount)
            return (Document(textCapacity: 0, nodeCapacity: 0), failure)
        }
        let document = Document(textCapacity: bytes.count, nodeCapacity: bytes.count / 8 + 4)
        document.setText(bytes)
        let failure: ParseFailure? =
            if let isCancelled {
                document.index(unless: isCancelled) { TapeParser.index($0, maximumDepth: maximumDepth) }
            } else {
                TapeParser.index(document, maximumDepth: maximumDepth)
            }
        if failure == nil { document.trim() }
        return (document, failure)
    }
}
