import LarderJSON

/// The revision that must be current when a change is made. Otherwise the change fails with
/// ``WireError/Code/conflict``.
public struct RevisionCondition: Sendable, Equatable {
    /// Nil for any revision.
    public var revision: Int?
    /// The epoch of ``revision``; nil for any.
    public var epoch: String?

    public init(_ revision: Int? = nil, epoch: String? = nil) {
        self.revision = revision
        self.epoch = epoch
    }

    init(from reader: MemberReader) throws(WireError) {
        revision = try reader.int("ifRevision", in: 0...largestRevision)
        epoch = try reader.string("epoch")
        if epoch != nil, revision == nil {
            throw WireError(.invalidParams, "\"epoch\" requires \"ifRevision\"; add it, or leave out \"epoch\"")
        }
    }

    /// Writes `ifRevision` and `epoch` as members of the object that the writer has begun.
    func writeMembers(to writer: inout JSONWriter) {
        writer.member("ifRevision", revision)
        writer.member("epoch", epoch)
    }
}
