package import LarderJSON

/// The effect that a change would have.
package struct ChangePreview: Sendable {
    /// The snapshot that the change was applied to.
    package let current: ConfigSnapshot
    /// The configuration that the change would publish; that of ``current`` if the change would publish nothing.
    package let value: JSONValue
    /// Whether the change would publish a snapshot.
    package let publishes: Bool
    package let result: ChangeBatch.Result
    /// The layers that resolve to ``value``.
    package let layers: Layers
    /// The violations of the schema by ``value``; empty if it is valid, or if there is no schema.
    package var schemaProblems: [SchemaProblem] = []

    /// Whether the change would change a layer.
    package var isChange: Bool { result.layerChanged }

    /// The differences between the configurations before and after the change. They are computed outside every actor,
    /// so that large configurations do not block one.
    package func difference() async -> ConfigDifference {
        await ConfigDifference.between(current.value, value, at: JSONPath([]))
    }
}
