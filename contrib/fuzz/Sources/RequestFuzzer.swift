import LarderJSON
@testable import LarderServer
import LarderProtocol

/// A request line. What is known of it without parsing (`RequestTemplate`) is what parsing finds, for any other id as well; and
/// the parameters that a method reads come back from what it writes of them.
@Sendable
func fuzzRequests(_ line: UnsafeRawBufferPointer) {
    var parser = JSONParser()
    let message = try? parser.parse(line)
    if let words = RequestTemplate(line) {
        require(
            words.head.count + words.id.count + words.rest.count == line.count
                && words.rest.baseAddress.map { $0 + words.rest.count } == line.baseAddress.map { $0 + line.count },
            "the words are not the line's")
        require((0..<256).contains(words.slot(of: 256)), "a place beyond the table")
        if let message, words.confirms(idAt: message.member("id")?.textRange) {
            if let request = try? Request(message) {
                require(request.id == RequestID(words), "another id than the request's")
            }
            for id in ["0", "7", "1234567890123456789012", "\"\"", "\"a-b\""] {
                again(Array(words.head), id, Array(words.rest), message)
            }
        }
    }
    guard let message else { return }
    let requests = message.kind == .array ? Array(message.elements) : [message]
    for message in requests.prefix(64) { decode(message) }
}

/// The same words with another id, as they are answered without being parsed.
private func again(_ head: [UInt8], _ id: String, _ rest: [UInt8], _ message: JSONValue) {
    let line = head + Array(id.utf8) + rest
    // Longer ones are parsed.
    guard line.count <= 512 else { return }
    line.withUnsafeBytes { bytes in
        guard let parsed = try? JSONValue(parsing: line) else { fatalError("with the id \(id) it is no JSON") }
        guard let words = RequestTemplate(bytes) else { fatalError("a line with the id \(id) has no template") }
        require(
            words.head.elementsEqual(head) && words.rest.elementsEqual(rest) && words.id.elementsEqual(id.utf8),
            "with the id \(id) there are other words")
        require(words.confirms(idAt: parsed.member("id")?.textRange), "the id \(id) is somewhere else")
        guard let request = try? Request(message), let same = try? Request(parsed) else {
            return require(
                (try? Request(message)) == nil && (try? Request(parsed)) == nil, "a request with one id alone")
        }
        require(
            same.method == request.method && same.params == request.params && same.id == RequestID(words),
            "with the id \(id) it asks for something else")
    }
}

private func decode(_ message: JSONValue) {
    let request: Request
    do {
        request = try Request(message)
    } catch {
        _ = error.error.description
        return
    }
    var writer = JSONWriter()
    Envelope.writeRequest(id: request.id, method: request.method.string ?? "", to: &writer) {
        if let params = request.params { $0.value(params) } else { $0.null() }
    }
    guard let again = (try? JSONValue(parsing: writer.bytes)).flatMap({ try? Request($0) }) else {
        fatalError("a written request cannot be read")
    }
    require(
        again.id == request.id && again.method == request.method && again.params == request.params,
        "a request that was written asks for something else")
    for read in methods { read(request.params) }
}

/// Each method's parameters: read, written and read again they write the same.
private let methods: [@Sendable (JSONValue?) -> Void] = AllMethods.types.map { parameters($0) }

private func parameters<Method: WireMethod>(_: Method.Type) -> @Sendable (JSONValue?) -> Void {
    { params in
        guard let read = try? Method.Parameters(params: params) else { return }
        var first = JSONWriter()
        read.write(to: &first)
        guard let written = try? JSONValue(parsing: first.bytes) else {
            fatalError("\(Method.name): no JSON is written")
        }
        var second = JSONWriter()
        do {
            try Method.Parameters(params: written).write(to: &second)
        } catch {
            fatalError("\(Method.name): what was written is not read: \(error)")
        }
        require(first.bytes == second.bytes, "\(Method.name): what was written reads as something else")
    }
}
