import LarderJSON
import LarderProtocol

/// The methods that the server implements, by name.
struct MethodRegistry {
    /// Carries out the requests of one method.
    struct Handler {
        typealias Serve = (RequestDispatcher, Request, BatchSlot?, RequestTemplate?) throws(WireError) -> Void

        let lifetime: PendingRequests.Lifetime
        let needsReply: Bool
        let serve: Serve
    }

    private var handlers: [Handler] = []
    /// The names of the methods, in the order of ``handlers``.
    private var registered: [String] = [] { didSet { index = NameIndex(registered) } }
    private var index = NameIndex([])

    /// The names of all methods, sorted.
    var names: [String] { registered.sorted() }

    /// The handler of the method that a JSON string names; nil if there is no such method or the value is not a string.
    subscript(name: JSONValue) -> Handler? { index.position(of: name).map { handlers[$0] } }

    /// Adds a handler, or replaces the one with the same name.
    mutating func add(_ name: String, _ handler: Handler) {
        if let position = index.position(of: name) {
            handlers[position] = handler
        } else {
            registered.append(name)
            handlers.append(handler)
        }
    }

    mutating func register<M: Method>(_ method: M.Type) {
        add(
            M.name,
            Handler(lifetime: M.lifetime, needsReply: M.needsReply) {
                (dispatcher, request, slot, template) throws(WireError) in
                try dispatcher.call(method, request, in: slot, template)
            })
    }
}
