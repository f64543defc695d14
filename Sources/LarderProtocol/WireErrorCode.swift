/// A kind of error. ``WireErrorCode/all`` lists all kinds, as does section 4 of `Protocol/README.md`.
package struct WireErrorCode: Sendable, Hashable {
    /// The number in `error.code`: negative for errors of JSON-RPC 2.0, positive for Larder's own errors.
    package let number: Int
    /// The stable name in `error.data.name`.
    package let name: String
    /// The short text in `error.message`.
    package let message: String
    /// Whether the same request may succeed later without a change.
    package let isRetryable: Bool
}

extension WireErrorCode {
    /// Returns the kind of error with the given name. If this version does not know the name, returns a new kind that
    /// has the name and is not retryable.
    init(name: String) { self = Self.byName[name] ?? Self(0, name, name) }

    init(_ number: Int, _ name: String, _ message: String, retryable: Bool = false) {
        self.init(number: number, name: name, message: message, isRetryable: retryable)
    }

    static let byName = Dictionary(uniqueKeysWithValues: all.map { ($0.name, $0) })
}
