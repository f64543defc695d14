import LarderProtocol

/// The methods that the server carries out, by their names.
struct MethodRegistry {
    /// Carries out the requests of one method.
    struct Handler {
        typealias Serve = (RequestDispatcher, Request, BatchSlot?, RequestTemplate?) throws(WireError) -> Void

        let lifetime: PendingRequests.Lifetime
        let needsReply: Bool
        let serve: Serve
    }

    private var handlers: [String: Handler] = [:]

    /// The names of all methods, sorted.
    var names: [String] { handlers.keys.sorted() }

    subscript(name: String) -> Handler? { handlers[name] }

    mutating func add(_ name: String, _ handler: Handler) { handlers[name] = handler }

    mutating func register<M: Method>(_ method: M.Type) {
        add(
            M.name,
            Handler(lifetime: M.lifetime, needsReply: M.needsReply) {
                (dispatcher, request, slot, template) throws(WireError) in
                try dispatcher.call(method, request, in: slot, template)
            })
    }
}
