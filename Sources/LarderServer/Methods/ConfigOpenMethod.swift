import LarderConfig
import LarderConfigModel
import LarderProtocol

extension ConfigOpen: Method {
    /// The descriptor is sent with the reply. A notification (a request without an id) has no reply, so it would have
    /// no effect.
    static var needsReply: Bool { true }

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        if call.isInBatch {
            throw WireError(
                .invalidParams, "the reply to a batch carries no descriptors; send config.open outside the batch")
        }
        let namespace = try call.namespace(call.parameters.namespace)
        let publication = namespace.publication
        guard publication.current.snapshot.revision > 0 else {
            throw ConfigGet.missing(
                ConfigGet.Parameters(namespace: publication.namespace), publication.current, of: publication)
        }
        let (files, connection) = (call.server.snapshotFiles, call.connection)
        if let opened = try files.immediateFile(publication) {
            guard connection.output.pass(opened.file) else { throw .disconnected }
            return .now(result(opened, namespace))
        }
        // A cancelled request is answered at once. The file is still created, because other clients may be waiting for
        // it.
        return .task(
            TaskReply(size: .small, endsOnCancellation: true) { () async throws(WireError) in
                try await files.file(publication)
            } finish: { opened, request in
                opened.flatMap { opened in
                    // If the client has lost the right to read the namespace since the request arrived, no descriptor
                    // is sent, and ``ReplyWriter`` replaces this error with the denial.
                    guard let request, request.denial == nil, connection.output.pass(opened.file) else {
                        return .failure(.disconnected)
                    }
                    return .success(result(opened, namespace))
                }
            })
    }

    private static func result(_ opened: OpenedSnapshot, _ namespace: ConfigNamespace) -> Result {
        let publication = namespace.publication
        return Result(
            namespace: publication.namespace, revision: opened.revision, epoch: publication.epoch,
            state: ConfigState(publication.current.freshness), bytes: opened.byteCount,
            secretPaths: namespace.configuration.secrets.texts)
    }
}
