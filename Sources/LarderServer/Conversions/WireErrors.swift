package import LarderConfig
package import LarderConfigModel
import LarderImages
import LarderJSON
package import LarderProtocol
import LarderUpstream

extension WireError {
    /// Converts the error of a configuration change. If the error is a conflict, the result contains the current state
    /// of the namespace. A value that is secret or contains a secret is left out if the peer may not see secrets.
    init(_ error: ConfigError, of publication: ConfigPublication, _ visibility: ValueVisibility) {
        if error.code == .schemaViolation, !visibility.mayRead {
            self.init([], "the configuration would violate its schema; only peers with the right \"read\" see how")
            return
        }
        guard error.code == .conflict else {
            self.init(error)
            return
        }
        let snapshot = publication.current.snapshot
        var (value, isMasked) = (JSONValue?.none, false)
        if visibility.mayRead, let path = error.conflictPath, let current = snapshot.value.value(at: path) {
            isMasked = visibility.shown(current, at: path).1
            if !isMasked { value = current }
        }
        self.init(
            Conflict(
                revision: snapshot.revision, epoch: publication.epoch, path: error.conflictPath, value: value,
                isMasked: isMasked),
            error.message)
    }

    /// Converts the error of a configuration change for a peer that may see secrets.
    package init(_ error: ConfigError, of publication: ConfigPublication, mayRead: Bool) {
        self.init(error, of: publication, ValueVisibility(mayRead: mayRead, secrets: .none))
    }

    /// Converts an error of the configuration.
    init(_ error: ConfigError) {
        switch error.code {
        case .upstreamFailed: self.init(.upstreamFailed, error.message)
        case .rejected: self.init(.rejected, error.message)
        case .storageFailed: self.init(.storageFailed, error.message)
        case .cancelled: self.init(.cancelled, error.message)
        case .stopped: self.init(.shuttingDown, error.message)
        case .invalidChange: self.init(.invalidParams, error.message)
        case .notFound: self.init(.notFound, error.message)
        case .locked: self.init(.denied, error.message)
        case .schemaViolation:
            self.init(error.schemaProblems.map(SchemaError.init), error.message)
        default: self.init(.internalError, error.message)
        }
    }

    /// Converts an error of the image cache.
    init(_ error: ImageError) {
        switch error.code {
        case .notCached: self.init(.notFound, error.message)
        case .offline: self.init(.offline, error.message)
        case .forbiddenAddress: self.init(.forbiddenAddress, error.message)
        case .notAnImage, .unsupportedType, .excludedType, .damagedImage, .truncatedImage, .tooManyPixels, .tooLarge,
            .lengthMismatch, .digestMismatch, .fileChanged:
            self.init(.imageRejected, error.message, reason: error.code.rawValue)
        case .cacheFull: self.init(.cacheFull, error.message)
        case .upstreamFailed:
            // The origin does not have the image, so a retry would not help.
            let isMissing = error.cause?.status == 404 || error.cause?.status == 410
            self.init(isMissing ? .notFound : .upstreamFailed, error.message, reason: error.cause?.code.rawValue)
        case .storageFailed, .damagedBlob, .indexDamaged: self.init(.storageFailed, error.message)
        case .denied: self.init(.denied, error.message)
        case .timeout: self.init(.timeout, error.message)
        case .cancelled: self.init(.cancelled, error.message)
        case .invalidURL, .unusableFile: self.init(.invalidParams, error.message)
        case .shuttingDown: self.init(.shuttingDown, error.message)
        default: self.init(.internalError, error.message)
        }
    }

    /// Runs `body`, and converts its error.
    static func from<Value>(
        _ body: () async throws(ImageError) -> Value
    ) async throws(WireError) -> Value {
        do throws(ImageError) { return try await body() } catch { throw WireError(error) }
    }

    /// Runs `body`, and converts its error.
    static func from<Value>(
        _ body: () async throws(ConfigError) -> Value
    ) async throws(WireError) -> Value {
        do throws(ConfigError) { return try await body() } catch { throw WireError(error) }
    }

    /// The error of a request whose client has disconnected.
    static let disconnected = WireError(.cancelled, "the client has disconnected")
}

extension SchemaError {
    init(_ problem: SchemaProblem) {
        self.init(
            path: problem.path.segments, schemaPath: problem.schemaLocation, keyword: problem.keyword,
            message: problem.message, layer: problem.layer?.rawValue, location: problem.location, line: problem.line)
    }
}
