package import LarderConfigModel

/// The state of a namespace's schema.
package struct SchemaStatus: Sendable {
    /// The digest of the schema in force; nil for none.
    package var digest: SnapshotDigest?
    /// The violations of the schema by the current snapshot: it was published before the schema was in force, or the
    /// setting `enforce` is `warn`.
    package var problems: [SchemaProblem] = []
    /// The last change that the schema has refused and that no client requested; nil once it is accepted or replaced.
    package var refusal: RefusedChange?

    /// Whether ``refusal`` is the given one.
    func hasRefusal(_ other: RefusedChange?) -> Bool {
        refusal?.at == other?.at && refusal?.subject == other?.subject && refusal?.version == other?.version
            && refusal?.problems == other?.problems
    }
}
