import LarderProtocol

// What the caller of each method needs: the one place that says so, beside section 12 of Protocol/README.md. A method that
// is not here cannot be served.

/// What a request needs.
enum Need: Sendable, Equatable {
    /// Nothing: whoever may connect may ask.
    case nothing
    /// A right for the whole agent.
    case general(Right)
    /// A right for the whole agent or in any namespace; the method shows no more than the peer may see.
    case anywhere(Right)
    case inNamespace(Right, String)
    /// All of these rights.
    case allInNamespace([Right], String)
    /// Two rights for the whole agent.
    case both(Right, Right)
}

/// A method of which it is known what its caller needs.
protocol GuardedMethod: WireMethod {
    /// What a request with these parameters needs.
    static func need(_ parameters: Parameters) -> Need
}

/// A request that was let in, and why: what it needed is asked again when the rules change while it waits.
struct Admission: Sendable {
    let method: String
    let need: Need

    init(_ method: String, _ need: Need) {
        self.method = method
        self.need = need
    }

    init<Method: GuardedMethod>(_ method: Method.Type, _ parameters: Method.Parameters) {
        self.init(Method.name, Method.need(parameters))
    }
}

// Nothing.
extension AgentPing: GuardedMethod { static func need(_: Parameters) -> Need { .nothing } }
extension AgentInfo: GuardedMethod { static func need(_: Parameters) -> Need { .nothing } }
extension RPCDiscover: GuardedMethod { static func need(_: Parameters) -> Need { .nothing } }
extension RequestCancel: GuardedMethod { static func need(_: Parameters) -> Need { .nothing } }
extension ConfigUnsubscribe: GuardedMethod { static func need(_: Parameters) -> Need { .nothing } }
extension ImageRelease: GuardedMethod { static func need(_: Parameters) -> Need { .nothing } }

// To read.
extension ConfigGet: GuardedMethod {
    static func need(_ parameters: Parameters) -> Need { .inNamespace(.read, parameters.namespace) }
}
extension ConfigOpen: GuardedMethod {
    static func need(_ parameters: Parameters) -> Need { .inNamespace(.read, parameters.namespace) }
}
extension ConfigSubscribe: GuardedMethod {
    static func need(_ parameters: Parameters) -> Need { .inNamespace(.read, parameters.namespace) }
}
extension ConfigWait: GuardedMethod {
    static func need(_ parameters: Parameters) -> Need { .inNamespace(.read, parameters.namespace) }
}
extension ConfigExplain: GuardedMethod {
    static func need(_ parameters: Parameters) -> Need { .inNamespace(.read, parameters.namespace) }
}
extension ConfigHistory: GuardedMethod {
    static func need(_ parameters: Parameters) -> Need { .inNamespace(.read, parameters.namespace) }
}
extension ConfigDiff: GuardedMethod {
    static func need(_ parameters: Parameters) -> Need { .inNamespace(.read, parameters.namespace) }
}
extension ConfigAcknowledge: GuardedMethod {
    static func need(_ parameters: Parameters) -> Need { .inNamespace(.read, parameters.namespace) }
}
extension ConfigStatus: GuardedMethod {
    static func need(_ parameters: Parameters) -> Need {
        parameters.namespace.map { .inNamespace(.read, $0) } ?? .anywhere(.read)
    }
}
extension AgentStats: GuardedMethod { static func need(_: Parameters) -> Need { .anywhere(.read) } }

// To change.
extension ConfigSet: GuardedMethod {
    static func need(_ parameters: Parameters) -> Need { .inNamespace(.write, parameters.namespace) }
}
extension ConfigUnset: GuardedMethod {
    static func need(_ parameters: Parameters) -> Need { .inNamespace(.write, parameters.namespace) }
}
extension ConfigPush: GuardedMethod {
    static func need(_ parameters: Parameters) -> Need { .inNamespace(.push, parameters.namespace) }
}
extension ConfigRefresh: GuardedMethod {
    /// By force it puts something else in the place of what is held, as a push does.
    static func need(_ parameters: Parameters) -> Need {
        .inNamespace(parameters.force ? .push : .read, parameters.namespace)
    }
}

// To administer.
extension ConfigRollback: GuardedMethod {
    static func need(_ parameters: Parameters) -> Need { .inNamespace(.administer, parameters.namespace) }
}
extension ConfigPin: GuardedMethod {
    static func need(_ parameters: Parameters) -> Need { .inNamespace(.administer, parameters.namespace) }
}
extension ConfigBackup: GuardedMethod {
    /// A backup has every value of the namespace.
    static func need(_ parameters: Parameters) -> Need {
        .allInNamespace([.administer, .read, .secrets], parameters.namespace)
    }
}
extension AgentClients: GuardedMethod { static func need(_: Parameters) -> Need { .general(.administer) } }
extension ImagePin: GuardedMethod { static func need(_: Parameters) -> Need { .general(.administer) } }
extension ImageUnpin: GuardedMethod { static func need(_: Parameters) -> Need { .general(.administer) } }
extension ImageRemove: GuardedMethod { static func need(_: Parameters) -> Need { .general(.administer) } }
extension ImageClear: GuardedMethod { static func need(_: Parameters) -> Need { .general(.administer) } }

// To have images, and to change what others get.
extension ImagePut: GuardedMethod { static func need(_: Parameters) -> Need { .both(.images, .push) } }

// To have images.
extension ImageGet: GuardedMethod { static func need(_: Parameters) -> Need { .general(.images) } }
extension ImagePeek: GuardedMethod { static func need(_: Parameters) -> Need { .general(.images) } }
extension ImagePrefetch: GuardedMethod { static func need(_: Parameters) -> Need { .general(.images) } }
extension ImageList: GuardedMethod { static func need(_: Parameters) -> Need { .general(.images) } }
