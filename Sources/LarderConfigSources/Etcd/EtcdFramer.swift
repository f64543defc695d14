/// Splits the response to a watch into its messages, which are JSON objects. The messages do not depend on how the
/// input is cut into pieces.
///
/// etcd ends each message with a line feed. The framer counts brackets instead. It therefore accepts messages without a
/// line feed or with line feeds inside, and a message is complete with its last byte.
struct EtcdFramer {
    enum Failure: Error, Equatable { case notObjects, tooLarge }

    private let maximumBytes: Int
    private var buffer: [UInt8] = []
    /// The index of the first byte of the next message in the buffer. The bytes before it are removed by the next
    /// ``append(_:)``, and not after each message, which would take quadratic time.
    private var start = 0
    /// The index of the first byte that has not been scanned.
    private var position = 0
    /// The number of open brackets at `position`.
    private var depth = 0
    private var isInString = false
    private var isEscaped = false

    /// - Parameter maximumBytes: the maximum size of a message
    init(maximumBytes: Int) { self.maximumBytes = maximumBytes }

    /// Whether a message is incomplete.
    var isInMessage: Bool { start < buffer.count }

    mutating func append(_ piece: some Collection<UInt8>) {
        if start > 0 {
            buffer.removeFirst(start)
            (position, start) = (position - start, 0)
        }
        buffer.append(contentsOf: piece)
    }

    /// Returns the next complete message; nil if more bytes are needed.
    mutating func next() throws(Failure) -> [UInt8]? {
        if depth == 0 { try skipBlanks() }
        while position < buffer.count {
            let byte = buffer[position]
            position += 1
            guard position - start <= maximumBytes else { throw .tooLarge }
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
        while start < buffer.count, " \t\r\n".utf8.contains(buffer[start]) { start += 1 }
        position = start
        guard start < buffer.count else { return }
        guard buffer[start] == UInt8(ascii: "{") else { throw .notObjects }
    }

    private mutating func take() -> [UInt8] {
        defer { start = position }
        return Array(buffer[start..<position])
    }
}
