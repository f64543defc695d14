import JSON

// The members that many messages share, read and written one way.

extension MemberReader {
    /// `namespace`, or the default one.
    func namespace() throws(WireError) -> String { try string("namespace") ?? defaultNamespace }

    /// A time; nil where the member is absent or null.
    func timestamp(_ name: String) throws(WireError) -> Timestamp? {
        guard let text = try string(name) else { return nil }
        guard let time = Timestamp(text) else {
            throw WireError(.invalidParams, "\"\(name)\" must be a time such as 2026-01-31T12:00:00.000Z")
        }
        return time
    }

    /// A time that must be there.
    func requiredTimestamp(_ name: String) throws(WireError) -> Timestamp {
        guard let time = try timestamp(name) else { throw WireError(.invalidParams, "\"\(name)\" is missing") }
        return time
    }

    /// A reader of the object at a member; nil where the member is absent or null.
    func object(_ name: String) throws(WireError) -> MemberReader? {
        guard let found = value(name), !found.isNull else { return nil }
        return try MemberReader(object: found)
    }
}

extension JSONWriter {
    /// `path`, left out for the whole document.
    mutating func path(_ path: JSONPath) {
        if !path.segments.isEmpty { member("path", path.pointer) }
    }

    /// `namespace`, left out for the default one.
    mutating func namespace(_ namespace: String) {
        if namespace != defaultNamespace { member("namespace", namespace) }
    }

    /// A member that is null where there is no value.
    mutating func nullableMember(_ name: StaticString, _ value: String?) {
        self.name(name)
        if let value { string(value) } else { null() }
    }

    /// A member that is null where there is no value.
    mutating func nullableMember(_ name: StaticString, _ value: Int?) {
        self.name(name)
        if let value { int(value) } else { null() }
    }
}
