import LarderJSON

/// A value of integers that are members on the wire. One table names them; it reads, writes and adds them up.
package protocol CounterGroups: Sendable {
    /// A member's name and the integer it holds.
    typealias Member = (name: StaticString, value: any WritableKeyPath<Self, Int> & Sendable)

    /// The members in the order of the wire; those of a group without a name are not in an object of their own.
    static var groups: [(name: StaticString?, members: [Member])] { get }

    init()
}

extension CounterGroups {
    init(from reader: MemberReader) throws(WireError) {
        self.init()
        for (group, members) in Self.groups {
            var source = reader
            if let group { source = try MemberReader(object: reader.requiredValue(group.description)) }
            for (name, value) in members { self[keyPath: value] = try source.requiredInt(name.description) }
        }
    }

    /// Writes the members into an object that is open.
    func writeMembers(to writer: inout JSONWriter) {
        for (group, members) in Self.groups {
            if let group {
                writer.name(group)
                writer.beginObject()
            }
            for (name, value) in members { writer.member(name, self[keyPath: value]) }
            if group != nil { writer.endObject() }
        }
    }

    func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writeMembers(to: &writer)
        writer.endObject()
    }

    package static func += (left: inout Self, right: Self) {
        for (_, members) in groups {
            for (_, value) in members { left[keyPath: value] += right[keyPath: value] }
        }
    }
}
