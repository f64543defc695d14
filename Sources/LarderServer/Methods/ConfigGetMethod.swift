import LarderConfig
import LarderConfigModel
import LarderEncoding
import LarderJSON
import LarderPlatform
import LarderProtocol
import NIOCore

extension ConfigGet: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let namespace = try call.namespace(call.parameters.namespace)
        let publication = namespace.publication
        guard let maximum = call.parameters.maximumAgeSeconds else {
            let current = publication.current
            return .now(
                try read(call.parameters, publication, current), source: SnapshotSource(publication, current))
        }
        let parameters = call.parameters
        if namespace.isConfirmed(within: maximum) {
            return .now(try read(parameters, publication, publication.current))
        }
        return .reply { () async throws(WireError) in
            try await namespace.refresh(within: maximum, orWithin: parameters.staleIfErrorSeconds)
            return try read(parameters, publication, publication.current)
        }
    }

    private static func read(
        _ parameters: Parameters, _ publication: ConfigPublication, _ current: ConfigPublication.Current
    ) throws(WireError) -> Result {
        guard current.snapshot.revision > 0, let value = current.snapshot.value.value(at: parameters.path) else {
            throw missing(parameters, current, of: publication)
        }
        return Result(
            value: value, revision: current.snapshot.revision, epoch: publication.epoch,
            state: ConfigState(current.freshness))
    }

    /// The error for a path without a value.
    static func missing(
        _ parameters: Parameters, _ current: ConfigPublication.Current, of publication: ConfigPublication
    ) -> WireError {
        let (path, namespace) = (parameters.path, parameters.namespace)
        // Nothing is published if there is not even a whole document.
        let missing = path.isRoot ? "no configuration" : "no value at \"\(path.description.excerpt)\""
        let status = publication.status
        let problems = status.schema.rejection?.problems ?? status.schema.problems
        if current.snapshot.revision == 0, let first = problems.first {
            return WireError(
                problems.map(SchemaError.init),
                "nothing is published in namespace \"\(namespace)\", because its schema rejects the configuration: "
                    + "\(first.text); correct the value or the schema", code: .unavailable)
        }
        if current.awaitsSource {
            let reason = status.lastError.map { ": \($0.error.message)" } ?? ""
            return WireError(
                .unavailable,
                "\(missing) in namespace \"\(namespace)\": its remote source has not delivered a valid "
                    + "document yet\(reason)")
        }
        return WireError(.notFound, "\(missing) in namespace \"\(namespace)\"")
    }
}

extension ConfigNamespace {
    /// Whether the source has confirmed the snapshot within the last `seconds`. Always true without a source.
    fileprivate func isConfirmed(within seconds: Double) -> Bool {
        let status = publication.status
        return !status.hasSource || status.age(at: WallClock.system.now).map { $0 <= seconds } ?? false
    }

    /// Polls the source, or joins a request to the source that other callers wait for and that began within the last
    /// `seconds`.
    /// - Parameter allowed: the maximum age in seconds of a snapshot that is acceptable if the refresh fails; nil to
    ///   throw the error of the refresh
    fileprivate func refresh(within seconds: Double, orWithin allowed: Double?) async throws(WireError) {
        do throws(ConfigError) {
            _ = try await refresher.refresh(begunWithin: .seconds(seconds)) { isConfirmed(within: seconds) }
        } catch {
            guard error.code == .upstreamFailed || error.isRejection else { throw WireError(error) }
            let age = publication.status.age(at: WallClock.system.now)
            if let age, let allowed, age <= allowed { return }
            if error.code == .schemaViolation { throw WireError(error) }
            let cached =
                age.map { "the cached document was confirmed \(Int($0)) s ago" }
                ?? "the age of the cached document is unknown"
            throw WireError(WireError(error).code, "\(error.message); \(cached)")
        }
    }
}

extension PublishedStatus {
    /// The seconds since the source confirmed the snapshot; nil if it never did, or if the system clock was set back.
    fileprivate func age(at now: Int) -> Double? {
        confirmedAt.flatMap { $0 <= now ? Double(now - $0) / 1000 : nil }
    }
}

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

extension ConfigWait: Method {
    static var needsReply: Bool { true }

    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let publication = try call.namespace(call.parameters.namespace).publication
        let (wait, hub) = (SnapshotWait(call.parameters, publication), call.hub)
        if let result = wait.result(in: publication.current) { return .now(result) }
        if wait.timeout?.nanoseconds == 0 { throw wait.timedOut }
        let deadline = wait.timeout.map { ReplyDeadline(time: $0, error: wait.timedOut) }
        return .later(size: .small, deadline: deadline, parameterBytes: wait.retainedBytes) { completion in
            wait.begin { result in
                hub.remove(wait)
                // The reply is deferred, so that other connections are served first if a publication ends thousands of
                // waits.
                completion.completeDeferred(result)
            }
            hub.add(wait)
            // The condition is checked again, because a snapshot may have been published after the first check and
            // before the wait was added.
            wait.evaluate(at: publication.current)
            if publication.current.hasEnded { wait.fail(.namespaceRemoved) }
            return wait.fail
        }
    }
}
