import LarderConfig
import LarderProtocol

extension ConfigStatus: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        if let name = call.parameters.namespace {
            return .now(Result(namespaces: [status(of: try call.namespace(name), call)]))
        }
        return .now(Result(namespaces: call.context.readableNamespaces.map { status(of: $0, call) }))
    }

    private static func status(of namespace: ConfigNamespace, _ call: MethodCall<Self>) -> Namespace {
        var status = namespace.wireStatus
        status.acknowledgements = call.loop.registry.acknowledgements.summary(of: namespace.name)
        status.copy = call.server.copies.map { copies in
            let (path, problem) = copies.copy(of: namespace.name)
            return Copy(path: path, problem: problem)
        }
        return status
    }
}
