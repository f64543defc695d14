/// Cuts what a watch answers into its messages, JSON objects one after the other, whatever pieces it comes in.
///
/// etcd ends each message with a line feed. Brackets are counted all the same, so that neither a message without one nor
/// one with line feeds inside leads astray, and a message is known to be complete with its last byte.
struct EtcdFramer {
    /// What came is no row of JSON objects, or one of them is too large.
    enum Failure: Error, Equatable { case notObjects, tooLarge }

    private let maximumBytes: Int
    private var buffer: [UInt8] = []
    /// How far the buffer was looked through.
    private var position = 0
    /// Open brackets at the position.
    private var depth = 0
    private var isInString = false
    private var isEscaped = false

    /// - Parameter maximumBytes: the longest message that is taken.
    init(maximumBytes: Int) { self.maximumBytes = maximumBytes }

    /// Whether a message has begun and not ended.
    var isInMessage: Bool { !buffer.isEmpty }

    /// Takes the next piece.
    mutating func append(_ piece: some Collection<UInt8>) { buffer.append(contentsOf: piece) }

    /// The next complete message; nil if more must come first.
    mutating func next() throws(Failure) -> [UInt8]? {
        if depth == 0 { try skipBlanks() }
        while position < buffer.count {
            let byte = buffer[position]
            position += 1
            guard position <= maximumBytes else { throw .tooLarge }
            if isInString {
                if isEscaped {
                    isEscaped = false
                } else if byte == UInt8(ascii: "\\") {
                    isEscaped = true
                } else if byte == UInt8(ascii: "\"") {
                    isInString = false
                }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""): isInString = true
            case UInt8(ascii: "{"), UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                depth -= 1
                if depth == 0 { return take() }
            default: break
            }
        }
        return nil
    }

    private mutating func skipBlanks() throws(Failure) {
        guard let start = buffer.firstIndex(where: { !" \t\r\n".utf8.contains($0) }) else {
            buffer.removeAll()
            return
        }
        buffer.removeFirst(start)
        guard buffer[0] == UInt8(ascii: "{") else { throw .notObjects }
    }

    private mutating func take() -> [UInt8] {
        let message = Array(buffer[..<position])
        buffer.removeFirst(position)
        position = 0
        return message
    }
}
