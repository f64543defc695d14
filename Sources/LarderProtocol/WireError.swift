package import LarderJSON

/// The error in a reply: JSON-RPC 2.0 section 5.1, with Larder's `data` member.
package struct WireError: Error, Sendable, Hashable, CustomStringConvertible {
    /// A kind of error.
    package typealias Code = WireErrorCode

    package let code: Code
    /// A text for people in `error.data.detail`: what happened and what to do next.
    package let detail: String
    /// The reason in `error.data.reason`, for programs; nil unless the protocol lists reasons for this kind of error.
    package let reason: String?
    /// The right that the peer lacks, if the error is ``WireErrorCode/denied`` because of a missing right; otherwise nil.
    /// Also nil if this version does not know the right.
    package let right: Right?
    /// The namespace in which the peer lacks the right; nil for the whole agent.
    package let namespace: String?
    /// The current state, for ``WireErrorCode/conflict``; nil for other errors.
    package let conflict: Conflict?
    /// The violations for ``WireErrorCode/schemaViolation``, the most specific first; empty if the peer may not see
    /// them. Also for ``WireErrorCode/unavailable``, if the schema rejects everything that could be published. Nil for
    /// other errors.
    package let schemaErrors: [SchemaError]?

    /// The state that did not meet the condition of a change. It is a class, so that errors stay small.
    package final class Conflict: Sendable, Hashable {
        /// The current revision of the namespace.
        package let revision: Int
        /// The epoch of ``revision``.
        package let epoch: String
        /// The path of the value that differs; nil if the revision or the epoch differs.
        package let path: JSONPath?
        /// The value at ``path`` in the snapshot ``revision``; nil if there is no value at the path, or if the peer may
        /// not see the value.
        package let value: JSONValue?
        /// Whether ``value`` is nil because the value at the path is secret or contains a secret.
        package let isMasked: Bool

        package init(
            revision: Int, epoch: String, path: JSONPath? = nil, value: JSONValue? = nil, isMasked: Bool = false
        ) {
            self.revision = revision
            self.epoch = epoch
            self.path = path
            self.value = value
            self.isMasked = isMasked
        }

        package static func == (left: Conflict, right: Conflict) -> Bool {
            left.revision == right.revision && left.epoch == right.epoch && left.path == right.path
                && left.value == right.value && left.isMasked == right.isMasked
        }

        package func hash(into hasher: inout Hasher) {
            hasher.combine(revision)
            hasher.combine(epoch)
        }
    }

    /// Creates an error.
    /// - Parameters:
    ///   - code: the kind of error
    ///   - detail: what happened and what to do next, in one line
    ///   - reason: one of the reasons that the protocol lists for this kind of error
    package init(_ code: Code, _ detail: String, reason: String? = nil) {
        self.code = code
        self.detail = detail
        self.reason = reason
        (right, namespace, conflict, schemaErrors) = (nil, nil, nil, nil)
    }

    /// Creates an error from its properties.
    package init(
        _ code: Code, _ detail: String, reason: String?, right: Right?, namespace: String?, conflict: Conflict?,
        schemaErrors: [SchemaError]?
    ) {
        (self.code, self.detail, self.reason) = (code, detail, reason)
        (self.right, self.namespace, self.conflict, self.schemaErrors) = (right, namespace, conflict, schemaErrors)
    }

    /// Creates the error ``WireErrorCode/conflict``.
    /// - Parameters:
    ///   - conflict: the condition that does not hold, and the current revision
    ///   - detail: which condition was not met and what to do next, in one line
    package init(_ conflict: Conflict, _ detail: String) {
        code = .conflict
        self.conflict = conflict
        self.detail = detail
        (reason, right, namespace, schemaErrors) = (nil, nil, nil, nil)
    }

    /// Creates an error that lists violations of the schema.
    /// - Parameters:
    ///   - schemaErrors: the violations
    ///   - detail: the first violation and the number of others, in one line
    ///   - code: the kind of error
    package init(_ schemaErrors: [SchemaError], _ detail: String, code: Code = .schemaViolation) {
        self.code = code
        self.schemaErrors = schemaErrors
        self.detail = detail
        (reason, right, namespace, conflict) = (nil, nil, nil, nil)
    }

    /// Creates the error ``WireErrorCode/denied`` for a peer that lacks a right.
    /// - Parameters:
    ///   - right: the right that the peer lacks
    ///   - namespace: the namespace in which the peer lacks the right; nil for the whole agent
    ///   - detail: which right is missing and who can grant it, in one line
    package init(lacking right: Right, in namespace: String?, _ detail: String) {
        code = .denied
        (reason, conflict, schemaErrors) = (nil, nil, nil)
        (self.right, self.namespace, self.detail) = (right, namespace, detail)
    }

    /// `message: detail`, in one line.
    package var description: String { "\(code.message): \(detail)" }
}

extension WireError {
    /// Reads the `error` member of a reply. An error of a kind that this version does not know keeps its number and
    /// texts.
    package init(from value: JSONValue) {
        let number = value["code"]?.int ?? WireError.Code.internalError.number
        let message = value["message"]?.string ?? "Error without a message"
        let data = value["data"]
        let name = data?["name"]?.string
        code =
            name.flatMap { Code.byName[$0] }
            ?? Code.all.first { $0.number == number && name == nil }
            ?? Code(
                number: number, name: name ?? "error\(number)", message: message,
                isRetryable: data?["retryable"]?.bool ?? false)
        detail = data?["detail"]?.string ?? message
        reason = data?["reason"]?.string
        right = (data?["right"]?.string).flatMap(Right.init)
        namespace = data?["namespace"]?.string
        conflict = data.flatMap(Conflict.init)
        let errors = [.schemaViolation, .unavailable].contains(code) ? data?["errors"] : nil
        schemaErrors = errors.map { $0.elements.compactMap { try? SchemaError(from: MemberReader(object: $0)) } }
    }

    /// Reads an error from the members `name`, `detail` and `reason` of an object, such as an element of `failures` in
    /// the result of `image.prefetch`.
    init(from reader: MemberReader) throws(WireError) {
        self.init(
            Code(name: try reader.requiredString("name")), try reader.requiredString("detail"),
            reason: try reader.string("reason"))
    }

    /// Writes the name, detail and reason into the object that the writer has begun.
    func writeMembers(to writer: inout JSONWriter) {
        writer.member("name", code.name)
        writer.member("detail", detail)
        writer.member("reason", reason)
    }

    /// Writes the value of the `error` member: `{"code":…,"message":…,"data":{"name":…,"retryable":…,"detail":…}}`.
    package func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("code", code.number)
        writer.member("message", code.message)
        writer.name("data")
        writer.beginObject()
        writer.member("name", code.name)
        writer.member("retryable", code.isRetryable)
        writer.member("detail", detail)
        if let reason { writer.member("reason", reason) }
        if let right { writer.member("right", right.rawValue) }
        if let namespace { writer.member("namespace", namespace) }
        conflict?.writeMembers(to: &writer)
        if let schemaErrors {
            writer.name("errors")
            writer.beginArray()
            for error in schemaErrors { error.write(to: &writer) }
            writer.endArray()
        }
        writer.endObject()
        writer.endObject()
    }
}

extension WireError.Conflict {
    /// Reads the `data` member of an error; nil unless it has a revision and an epoch.
    fileprivate convenience init?(_ data: JSONValue) {
        guard let revision = data["revision"]?.int, let epoch = data["epoch"]?.string else { return nil }
        self.init(
            revision: revision, epoch: epoch, path: data["path"].flatMap { try? JSONPath($0) },
            value: data["value"]?.detached(), isMasked: data["masked"]?.bool ?? false)
    }

    fileprivate func writeMembers(to writer: inout JSONWriter) {
        writer.member("revision", revision)
        writer.member("epoch", epoch)
        if let path {
            writer.name("path")
            writer.beginArray()
            for name in path.segments { writer.string(name) }
            writer.endArray()
        }
        writer.member("value", value)
        if isMasked { writer.member("masked", true) }
    }
}

extension SchemaError: Hashable {
    package func hash(into hasher: inout Hasher) {
        hasher.combine(path)
        hasher.combine(schemaPath)
    }
}
