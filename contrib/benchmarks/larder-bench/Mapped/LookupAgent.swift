import Glibc
import LarderSnapshotFile

/// Looks up values with `config.get` requests to the agent, which also passes the file for ``MappedLookup``.
final class LookupAgent: LookupMethod {
    let name = "larder"
    let lookupsPerClockReading = 1
    /// The size of the mapped file in bytes.
    private(set) var fileBytes = 0
    private let connection: BlockingConnection
    private let control: ControlConnection
    private let namespace: String
    private let table: LookupTable
    private let requests: [PreparedBytes]
    /// The path below which the benchmark sets its values. It changes no other values of the namespace.
    private static let root = "larderBenchMapped"

    init(socket: String, namespace: String, table: LookupTable) throws {
        let peer = Peer(kind: .larder, socketPath: socket)
        control = try ControlConnection(to: peer)
        connection = try BlockingConnection(to: socket, name: name)
        (self.namespace, self.table) = (namespace, table)
        requests = table.paths.map {
            PreparedBytes(peer.getRequest(path: "\(Self.root).\($0)", namespace: namespace, id: 1))
        }
        let members = zip(table.paths, table.texts).map { (path: $0[...], text: $1) }
        try control.request(request("config.set", #","path":"\#(Self.root)","value":\#(Self.object(members))"#))
    }

    /// Removes the values that ``init(socket:namespace:table:)`` set.
    func clear() { _ = try? control.request(request("config.unset", #","path":"\#(Self.root)""#)) }

    /// Maps the current snapshot.
    func mapped() throws -> MappedLookup {
        let bytes = PreparedBytes(request("config.open", ""))
        try connection.send(bytes.buffer)
        let (line, descriptor) = try connection.line()
        guard descriptor >= 0 else {
            throw BenchError(
                .unexpected,
                "the reply to config.open has no descriptor: \(ReplyText.excerpt(UnsafeRawBufferPointer(line)))")
        }
        defer { _ = Glibc.close(descriptor) }
        let snapshot = try MappedSnapshot(descriptor: descriptor)
        fileBytes = snapshot.byteCount
        return MappedLookup(snapshot: snapshot, table: table.under(Self.root))
    }

    func lookUp(_ index: Int) throws(BenchError) {
        try connection.send(requests[index].buffer)
        let (line, _) = try connection.line()
        guard !LarderRequest.isError(UnsafeRawBufferPointer(line)) else {
            throw BenchError(.refused, "\(name): \(ReplyText.excerpt(UnsafeRawBufferPointer(line)))")
        }
    }

    private func request(_ method: String, _ params: String) -> [UInt8] {
        Array(#"{"id":1,"method":"\#(method)","params":{"namespace":"\#(namespace)"\#(params)}}"#.utf8) + [0x0A]
    }

    /// Returns the text of the JSON object that has, at each given path, the value with the given JSON text.
    private static func object(_ members: [(path: Substring, text: String)]) -> String {
        var groups: [(name: Substring, members: [(path: Substring, text: String)])] = []
        for (path, text) in members {
            let name = path.prefix { $0 != "." }
            if groups.last?.name != name { groups.append((name, [])) }
            groups[groups.count - 1].members.append((path.dropFirst(name.count + 1), text))
        }
        let texts = groups.map { name, members in
            let isValue = members.count == 1 && members[0].path.isEmpty
            return "\"\(name)\":" + (isValue ? members[0].text : object(members))
        }
        return "{" + texts.joined(separator: ",") + "}"
    }
}
