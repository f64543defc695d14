package import LarderJSON

/// The effect that a change would have.
package struct ChangePreview: Sendable {
    /// The snapshot that the change was applied to.
    package let current: ConfigSnapshot
    /// The configuration that the change would publish; that of ``current`` if it would publish nothing.
    package let value: JSONValue
    package let result: ChangeBatch.Result

    /// The differences between the two configurations. Computed off every actor.
    package func difference() async -> ConfigDifference {
        await ConfigDifference.between(current.value, value, at: JSONPath([]))
    }
}
