import LarderJSON
import LarderProtocol
import NIOCore

/// Reads of the current snapshot: the requests that come most often. A read that came before in the same words is
/// answered from the ``ReplyCache``.
extension Connection {
    /// Answers a read whose reply is known.
    /// - Returns: false where it is not, or the message is anything else.
    func serveAgain(_ words: RequestTemplate) -> Bool {
        let mark = loop.output.mark
        switch loop.replies.append(for: words, with: rights, to: &loop.output) {
        case .nothing: return false
        case .written: break
        case .begun(let rest):
            if rest.readableBytes > UserUsage.largeBytes, let error = refusalOfMore() {
                loop.output.rewind(to: mark)
                reply(id: RequestID(words), error, in: nil)
            } else {
                flush(then: rest)
            }
        }
        loop.traffic.requestsTotal += 1
        return true
    }

    /// Answers a read, and keeps the reply for the next one in the same words.
    /// - Parameters:
    ///   - later: what answers it where the current snapshot does not do
    ///   - words: the line's, where it is certain that their id is the request's.
    func serveReading(
        _ request: Request, _ body: MethodTable.Reading, orLater later: @escaping MethodTable.Deferred,
        in place: BatchSlot?, _ words: RequestTemplate?
    ) {
        do throws(WireError) {
            guard let reading = try body(scope, request.params) else {
                return try serveLater(request, later, endsWithConnection: true, in: place)
            }
            if let place { return reply(id: request.id, reading.result, in: place) }
            guard let id = request.id else { return }
            let mark = loop.output.mark
            var text = id.text
            text.withUTF8 { ReplyCache.appendHead(id: UnsafeRawBufferPointer($0), to: &loop.output) }
            let start = loop.output.bytes.count
            Self.append(",\"result\":", to: &loop.output)
            reading.result.write(to: &loop.output)
            Self.append("}", to: &loop.output)
            loop.output.endLine()
            if let words, reading.isRepeatable {
                loop.replies.keep(loop.output.bytes[start...], for: words, reading.publication, reading.current)
            }
            withholdIfTooMuch(id, from: mark)
        } catch {
            reply(id: request.id, error, in: place)
        }
    }

    private static func append(_ text: StaticString, to writer: inout JSONWriter) {
        writer.rawUnframed(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }
}
