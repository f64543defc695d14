public import Configuration
import Glibc
import LarderJSON
import LarderSnapshotFile
import Synchronization

/// An immutable snapshot of the configuration of one namespace. ``LarderProvider/snapshot()`` returns it.
///
/// ```swift
/// let provider = try await LarderProvider(startup: .optional)
/// if let snapshot = provider.snapshot() as? LarderProviderSnapshot {
///     print(snapshot.origin, snapshot.revision ?? 0)
/// }
/// ```
///
/// All values of a snapshot belong to one revision. The memory of the snapshot is shared with the agent and with the
/// other processes that read it, and is released with the last copy of this value.
public struct LarderProviderSnapshot: ConfigSnapshot, CustomStringConvertible {
    /// Where a snapshot comes from.
    public enum Origin: Sendable, Equatable {
        /// The agent passed it.
        case agent
        /// The provider read the file that the agent keeps in `current/`, because the agent was unreachable.
        case exportedFile
        /// There is no configuration: the agent was unreachable, and there was no readable file.
        case empty
    }

    private let content: SnapshotContent

    /// Where the snapshot comes from.
    public var origin: Origin { content.origin }

    /// The revision of the snapshot; nil if it does not come from the agent, because the exported file does not contain
    /// it.
    public var revision: Int? { content.origin == .agent ? content.mapped.revision : nil }

    init(_ mapped: MappedSnapshot, origin: Origin, providerName: String, specifier: LarderProvider.Secrets) {
        content = SnapshotContent(mapped, origin: origin, providerName: providerName, specifier: specifier)
    }

    public var providerName: String { content.providerName }

    /// Returns the value of a key in this snapshot. The context of the key is ignored.
    /// - Throws: ``LarderProviderError`` with `typeMismatch`.
    public func value(forKey key: AbsoluteConfigKey, type: ConfigType) throws -> LookupResult {
        try content.result(at: key.components, type).get()
    }

    /// The name of the provider and the revision.
    public var description: String {
        switch origin {
        case .agent: "\(providerName)[revision \(content.mapped.revision)]"
        case .exportedFile: "\(providerName)[exported file]"
        case .empty: "\(providerName)[empty]"
        }
    }

    /// Looks up the value of a key.
    func result(at components: [String], _ type: ConfigType) -> Result<LookupResult, LarderProviderError> {
        content.result(at: components, type)
    }

    /// Converts the JSON text of a value that the agent returned for a key.
    func result(
        of text: UnsafeRawBufferPointer?, at components: [String], _ type: ConfigType
    ) -> Result<LookupResult, LarderProviderError> {
        content.result(of: text, at: components, type)
    }

    /// Returns whether the value of a key has the same JSON text in both snapshots. No components mean the whole
    /// document.
    func hasSameText(as other: LarderProviderSnapshot, at components: [String]) -> Bool {
        content === other.content
            || content.withText(at: components) { text in
                other.content.withText(at: components) { otherText in
                    guard let text, let otherText else { return text == nil && otherText == nil }
                    guard text.count == otherText.count else { return false }
                    guard let start = text.baseAddress, let otherStart = otherText.baseAddress else { return true }
                    return memcmp(start, otherStart, text.count) == 0
                }
            }
    }
}

/// The content of a snapshot, and the values that were converted so far.
private final class SnapshotContent: Sendable {
    let mapped: MappedSnapshot
    let origin: LarderProviderSnapshot.Origin
    let providerName: String
    /// Nil if the patterns are unknown. All values are then secret.
    private let secretPaths: SecretPaths?
    private let specifier: LarderProvider.Secrets
    /// The results of earlier reads. Only the first read of a value converts it and allocates memory. Later reads take
    /// as long as those of `InMemoryProvider`, which is a half to a quarter of the time of a conversion.
    private let converted = Mutex<[ConvertedKey: LookupResult]>([:])

    private struct ConvertedKey: Hashable {
        /// The address of the value's text in the mapping.
        var address: UInt
        var type: ConfigType
    }

    init(
        _ mapped: MappedSnapshot, origin: LarderProviderSnapshot.Origin, providerName: String,
        specifier: LarderProvider.Secrets
    ) {
        (self.mapped, self.origin, self.providerName) = (mapped, origin, providerName)
        secretPaths = mapped.secretPaths.map(SecretPaths.init)
        self.specifier = specifier
    }

    /// Looks up the value of a key.
    func result(at components: [String], _ type: ConfigType) -> Result<LookupResult, LarderProviderError> {
        mapped.withText(at: components) { text in
            guard let text, let start = text.baseAddress else {
                return withElementText(at: components) { result(of: $0, at: components, type) }
            }
            let key = ConvertedKey(address: UInt(bitPattern: start), type: type)
            // A reader that finds the table locked converts the value itself, so that no reader waits for another.
            if let known = converted.withLockIfAvailable({ $0[key] }) ?? nil { return .success(known) }
            let outcome = result(of: text, at: components, type)
            if case .success(let value) = outcome { converted.withLockIfAvailable { $0[key] = value } }
            return outcome
        }
    }

    /// Calls `body` with the JSON text of the value of a key; with nil if there is no value.
    func withText<R>(at components: [String], _ body: (UnsafeRawBufferPointer?) -> R) -> R {
        mapped.withText(at: components) { text in
            text == nil ? withElementText(at: components, body) : body(text)
        }
    }

    /// Calls `body` with the JSON text of a value inside an array, such as `hosts.0`; with nil if there is no value.
    /// The file has no index of such values, so their array is parsed.
    private func withElementText<R>(at components: [String], _ body: (UnsafeRawBufferPointer?) -> R) -> R {
        guard components.dropFirst().contains(where: ArrayIndex.isIndex),
            let element = try? mapped.value(at: JSONPath(components))
        else { return body(nil) }
        return element.withTextBytes(body)
    }

    /// Converts the JSON text of the value of a key. Null means that there is no value, as in merge patches.
    func result(
        of text: UnsafeRawBufferPointer?, at components: [String], _ type: ConfigType
    ) -> Result<LookupResult, LarderProviderError> {
        let key = KeyText.text(of: components)
        guard let text, text.first != UInt8(ascii: "n") else {
            return .success(LookupResult(encodedKey: key, value: nil))
        }
        do throws(ValueConversion.Failure) {
            let content = try ValueConversion.content(of: text, as: type)
            let value = ConfigValue(content, isSecret: isSecret(components, content, isArray: type.isArray))
            return .success(LookupResult(encodedKey: key, value: value))
        } catch {
            return .failure(LarderProviderError(.typeMismatch, key: key, error.reason(at: key)))
        }
    }

    private func isSecret(_ components: [String], _ content: ConfigContent, isArray: Bool) -> Bool {
        guard let secretPaths else { return true }
        return secretPaths.isSecret(components, isArray: isArray)
            || specifier.isSecret(key: AbsoluteConfigKey(components), value: content)
    }
}

extension ConfigType {
    fileprivate var isArray: Bool {
        switch self {
        case .string, .int, .double, .bool, .bytes: false
        case .stringArray, .intArray, .doubleArray, .boolArray, .byteChunkArray: true
        }
    }
}
