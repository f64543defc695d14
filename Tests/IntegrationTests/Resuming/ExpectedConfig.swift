import Crypto
import LarderJSON

/// What a namespace says after the changes that a test made: groups of values, from pushed documents and from overrides.
/// It knows nothing of the agent's own merging.
struct ExpectedConfig {
    /// JSON texts by group and name.
    typealias Groups = [String: [String: String]]

    private var remote: Groups = [:]
    /// A `null` hides what the document says, and makes no group.
    private var overrides: Groups = [:]

    mutating func push(_ groups: Groups) { remote = groups }

    mutating func set(_ group: String, _ name: String, to text: String) { overrides[group, default: [:]][name] = text }

    mutating func unset(_ group: String, _ name: String?) {
        if let name { overrides[group]?[name] = nil } else { overrides[group] = nil }
        if overrides[group]?.isEmpty == true { overrides[group] = nil }
    }

    /// The value of a group, or of all of them, with its members in the order of their names; nil where nothing is.
    func text(of group: String?) -> String? {
        guard let group else {
            let groups = Set(remote.keys).union(overrides.keys).sorted()
            return Self.object(groups.compactMap { group in text(of: group).map { (group, $0) } })
        }
        let isMade = overrides[group]?.values.contains { $0 != "null" } ?? false
        if remote[group] == nil, !isMade { return nil }
        let values = (remote[group] ?? [:]).merging(overrides[group] ?? [:]) { $1 }.filter { $0.value != "null" }
        return Self.object(values.sorted { $0.key < $1.key }.map { ($0.key, $0.value) })
    }

    /// The compact text of a value, with the members of its objects in the order of their names.
    static func text(of value: JSONValue) -> String {
        guard value.kind == .object else { return value.compactText }
        return object(value.members.map { ($0.name, text(of: $0.value)) }.sorted { $0.0 < $1.0 })
    }

    private static func object(_ members: [(String, String)]) -> String {
        "{" + members.map { JSONValue.string($0.0).compactText + ":" + $0.1 }.joined(separator: ",") + "}"
    }

    /// SHA-256 of a text; of the lack of one, too.
    static func digest(of text: String?) -> String {
        guard let text else { return "nothing" }
        return SHA256.hash(data: Array(text.utf8)).map { String(Int($0) + 256, radix: 16).suffix(2) }.joined()
    }
}
