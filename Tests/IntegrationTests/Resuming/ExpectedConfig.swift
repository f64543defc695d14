import LarderDigest
import LarderJSON

/// The content that a namespace must have after the changes of a test. The pushed documents and the overrides consist
/// of groups of values. The content is computed without the agent's merge code.
struct ExpectedConfig {
    /// JSON texts by group and name.
    typealias Groups = [String: [String: String]]

    private var remote: Groups = [:]
    /// An override with `null` removes the value of the document, and does not create a group.
    private var overrides: Groups = [:]

    mutating func push(_ groups: Groups) { remote = groups }

    mutating func set(_ group: String, _ name: String, to text: String) { overrides[group, default: [:]][name] = text }

    mutating func unset(_ group: String, _ name: String?) {
        if let name { overrides[group]?[name] = nil } else { overrides[group] = nil }
        if overrides[group]?.isEmpty == true { overrides[group] = nil }
    }

    /// The JSON text of a group, or of all groups if `group` is nil, with members sorted by name. Nil if the group does
    /// not exist.
    func text(of group: String?) -> String? {
        guard let group else {
            let groups = Set(remote.keys).union(overrides.keys).sorted()
            return Self.object(groups.compactMap { group in text(of: group).map { (group, $0) } })
        }
        let isCreated = overrides[group]?.values.contains { $0 != "null" } ?? false
        if remote[group] == nil, !isCreated { return nil }
        let values = (remote[group] ?? [:]).merging(overrides[group] ?? [:]) { $1 }.filter { $0.value != "null" }
        return Self.object(values.sorted { $0.key < $1.key }.map { ($0.key, $0.value) })
    }

    /// The compact text of a value, with the members of all objects sorted by name.
    static func text(of value: JSONValue) -> String {
        guard value.kind == .object else { return value.compactText }
        return object(value.members.map { ($0.name, text(of: $0.value)) }.sorted { $0.0 < $1.0 })
    }

    private static func object(_ members: [(String, String)]) -> String {
        "{" + members.map { JSONValue.string($0.0).compactText + ":" + $0.1 }.joined(separator: ",") + "}"
    }

    /// The SHA-256 of a text in hexadecimal digits, or "nothing" if it is nil.
    static func digest(of text: String?) -> String {
        guard let text else { return "nothing" }
        return SHA256.hash(text.utf8).map { String(Int($0) + 256, radix: 16).suffix(2) }.joined()
    }
}
