import LarderJSON
@testable import LarderServer
import LarderProtocol

/// The input is a request line.
///
/// The fuzzer checks that ``RequestTemplate``, which splits a line without parsing it, agrees with the parser, also for
/// the same request with another id. It also checks that the parameters of each method survive writing and reading.
@Sendable
func fuzzRequests(_ line: UnsafeRawBufferPointer) {
    var parser = JSONParser()
    let message = try? parser.parse(line)
    if let template = RequestTemplate(line) {
        require(
            template.head.count + template.id.count + template.rest.count == line.count
                && template.rest.baseAddress.map { $0 + template.rest.count }
                    == line.baseAddress.map { $0 + line.count },
            "the parts of the template are not the whole line")
        require((0..<256).contains(template.slot(of: 256)), "the slot is beyond the table")
        if let message, template.confirms(idAt: message.member("id")?.textRange) {
            if let request = try? Request(message) {
                require(request.id == RequestID(template), "the template has another id than the request")
            }
            for id in ["0", "7", "1234567890123456789012", "\"\"", "\"a-b\""] {
                checkOtherID(Array(template.head), id, Array(template.rest), message)
            }
        }
    }
    guard let message else { return }
    let requests = message.kind == .array ? Array(message.elements) : [message]
    for message in requests.prefix(64) { checkRequest(message) }
}

/// Checks the template of the same request with another id.
private func checkOtherID(_ head: [UInt8], _ id: String, _ rest: [UInt8], _ message: JSONValue) {
    let line = head + Array(id.utf8) + rest
    // Longer lines have no template.
    guard line.count <= 512 else { return }
    line.withUnsafeBytes { bytes in
        guard let parsed = try? JSONValue(parsing: line) else {
            fatalError("with the id \(id) the line is not valid JSON")
        }
        guard let template = RequestTemplate(bytes) else { fatalError("with the id \(id) the line has no template") }
        require(
            template.head.elementsEqual(head) && template.rest.elementsEqual(rest)
                && template.id.elementsEqual(id.utf8),
            "with the id \(id) the template has other parts")
        require(
            template.confirms(idAt: parsed.member("id")?.textRange), "the template has the id \(id) at another position"
        )
        guard let request = try? Request(message), let same = try? Request(parsed) else {
            return require(
                (try? Request(message)) == nil && (try? Request(parsed)) == nil,
                "whether the line is a valid request depends on its id")
        }
        require(
            same.method == request.method && same.params == request.params && same.id == RequestID(template),
            "with the id \(id) the request differs")
    }
}

private func checkRequest(_ message: JSONValue) {
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
        fatalError("a request cannot be read after writing")
    }
    require(
        again.id == request.id && again.method == request.method && again.params == request.params,
        "a request changes when it is written and read")
    for read in methods { read(request.params) }
}

/// A check for each method: parameters that are read, written and read again must be written identically.
private let methods: [@Sendable (JSONValue?) -> Void] = AllMethods.types.map { parameters($0) }

private func parameters<Method: WireMethod>(_: Method.Type) -> @Sendable (JSONValue?) -> Void {
    { params in
        guard let read = try? Method.Parameters(params: params) else { return }
        var first = JSONWriter()
        read.write(to: &first)
        guard let written = try? JSONValue(parsing: first.bytes) else {
            fatalError("\(Method.name): the parameters are written as invalid JSON")
        }
        var second = JSONWriter()
        do {
            try Method.Parameters(params: written).write(to: &second)
        } catch {
            fatalError("\(Method.name): the written parameters cannot be read: \(error)")
        }
        require(first.bytes == second.bytes, "\(Method.name): parameters change when they are written and read")
    }
}
