import LarderConfig
import LarderConfigModel
import LarderEncoding
import LarderJSON
import LarderPlatform
import LarderProtocol

extension ConfigGet: Method {
    static func call(_ call: MethodCall<Self>) throws(WireError) -> Outcome<Result> {
        let (parameters, namespace) = (call.parameters, try call.namespace(call.parameters.namespace))
        guard let maximum = parameters.maximumAgeSeconds else {
            let current = namespace.publication.current
            return .now(
                try read(parameters, namespace, current),
                source: SnapshotSource(publication: namespace.publication, current: current))
        }
        if namespace.isConfirmed(within: maximum) {
            return .now(try read(parameters, namespace, namespace.publication.current))
        }
        return .task(
            TaskReply(size: .small) { () async throws(WireError) in
                try await namespace.refresh(within: maximum, orWithin: parameters.staleIfErrorSeconds)
                return try read(parameters, namespace, namespace.publication.current)
            })
    }

    /// Returns the length of a large value, so that a batch encodes it after its other replies. Returns nil for a small
    /// value, and for a large value that is a small part of its document, because a batch retains the whole document
    /// until it encodes the value.
    static func lateBytes(of result: Result) -> Int? {
        let bytes = result.value.withTextBytes { $0.count }
        return bytes > UserUsage.largeBytes && result.value.documentMemory < 2 * bytes ? bytes : nil
    }

    private static func read(
        _ parameters: Parameters, _ namespace: ConfigNamespace, _ current: ConfigPublication.Current
    ) throws(WireError) -> Result {
        guard current.snapshot.revision > 0, let value = current.snapshot.value.value(at: parameters.path) else {
            throw missing(parameters, current, of: namespace.publication)
        }
        return Result(
            value: value, revision: current.snapshot.revision, epoch: namespace.publication.epoch,
            state: ConfigState(current.freshness))
    }

    /// The error for a path without a value.
    static func missing(
        _ parameters: Parameters, _ current: ConfigPublication.Current, of publication: ConfigPublication
    ) -> WireError {
        let (path, namespace) = (parameters.path.description.excerpt, parameters.namespace)
        let schema = publication.statusRecord.schema
        let problems = schema.refusal?.problems ?? schema.problems
        if current.snapshot.revision == 0, let first = problems.first {
            return WireError(
                problems.map(SchemaError.init),
                "nothing is published in namespace \"\(namespace)\", because its schema refuses the configuration: "
                    + "\(first.text); correct the value or the schema", code: .unavailable)
        }
        if current.awaitsSource {
            let reason = publication.status.lastError.map { ": \($0.error.message)" } ?? ""
            return WireError(
                .unavailable,
                "no value at \"\(path)\" in namespace \"\(namespace)\": its remote source has not delivered a valid "
                    + "document yet\(reason)")
        }
        return WireError(.notFound, "no value at \"\(path)\" in namespace \"\(namespace)\"")
    }
}

extension ConfigNamespace {
    /// Whether the source has confirmed the snapshot within the last `seconds`. Always true without a source.
    fileprivate func isConfirmed(within seconds: Double) -> Bool {
        let status = publication.statusRecord
        return !status.hasSource || status.age(at: WallClock.system.now).map { $0 <= seconds } ?? false
    }

    /// Polls the source, or joins a request to the source that other callers wait for and that began within the last
    /// `seconds`.
    /// - Parameter allowed: the maximum age in seconds of a snapshot that is acceptable if the refresh fails; nil to
    ///   throw the error of the refresh
    fileprivate func refresh(within seconds: Double, orWithin allowed: Double?) async throws(WireError) {
        do throws(ConfigError) {
            _ = try await refresher.refresh(begunWithin: .seconds(seconds))
        } catch {
            guard error.code == .upstreamFailed || error.isRefusal else { throw WireError(error) }
            let age = publication.statusRecord.age(at: WallClock.system.now)
            if let age, let allowed, age <= allowed { return }
            if error.code == .schemaViolation { throw WireError(error) }
            let cached =
                age.map { "the cached document was confirmed \(Int($0)) s ago" }
                ?? "the age of the cached document is unknown"
            throw WireError(WireError(error).code, "\(error.message); \(cached)")
        }
    }
}

extension StatusRecord {
    /// The seconds since the source confirmed the snapshot; nil if it never did, or if the system clock was set back.
    fileprivate func age(at now: Int) -> Double? {
        confirmedAt.flatMap { $0 <= now ? Double(now - $0) / 1000 : nil }
    }
}
