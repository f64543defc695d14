import JSON
import LarderWire

/// Reads of the current snapshot: the requests that come most often. A read that came before in the same words is
/// answered from the ``ReplyCache``.
extension SessionHandler {
    private static let replyHead: StaticString = "{\"jsonrpc\":\"2.0\",\"id\":"

    /// Answers a read whose reply is known.
    /// - Returns: false where it is not, or the message is anything else.
    func serveAgain(_ message: JSONValue) -> Bool {
        guard message.kind == .object, let method = message.member("method"), method.isString("config.get"),
            let id = message.member("id"), id.kind == .number || id.kind == .string,
            let params = message.member("params"), message.member("jsonrpc")?.isString("2.0") ?? true
        else { return false }
        let mark = loop.output.mark
        Self.append(Self.replyHead, to: &loop.output)
        id.withTextBytes { loop.output.rawUnframed($0) }
        guard params.withTextBytes({ loop.replies.append(for: $0, to: &loop.output) }) else {
            loop.output.rewind(to: mark)
            return false
        }
        loop.traffic.requestsTotal += 1
        return true
    }

    /// Answers a read, and keeps the reply for the next one in the same words.
    func serveReading(_ request: Request, _ body: MethodTable.Reading, in place: BatchPlace?) {
        do throws(WireError) {
            let reading = try body(scope, request.params)
            guard place == nil, let id = request.id else { return reply(id: request.id, reading.result, in: place) }
            Self.append(Self.replyHead, to: &loop.output)
            var text = id.text
            text.withUTF8 { loop.output.rawUnframed(UnsafeRawBufferPointer($0)) }
            let start = loop.output.bytes.count
            Self.append(",\"result\":", to: &loop.output)
            reading.result.write(to: &loop.output)
            Self.append("}", to: &loop.output)
            loop.output.endLine()
            request.params?.withTextBytes { params in
                loop.replies.keep(loop.output.bytes[start...], for: params, reading.publication, reading.current)
            }
        } catch {
            reply(id: request.id, error, in: place)
        }
    }

    private static func append(_ text: StaticString, to writer: inout JSONWriter) {
        writer.rawUnframed(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }
}
