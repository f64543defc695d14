import Glibc
import LarderEncoding
import LarderJSON
import LarderJSON5

/// The values of the placeholders that identify this host.
package struct HostFacts: Sendable {
    /// `{hostname}`: the name of the host (gethostname(2)).
    package var name: String
    /// `{hostId}`: 32 hexadecimal digits; nil if the host has no machine ID.
    package var id: String?

    package init(name: String = Self.systemName, id: String? = nil) {
        self.name = name
        self.id = id
    }

    package static var systemName: String {
        var name = [CChar](repeating: 0, count: 256)
        gethostname(&name, name.count - 1)
        return String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

/// Replaces `{hostname}`, `{hostId}` and `{label:NAME}` in URLs, etcd keys and header values, so that one file of settings
/// serves many hosts. `{{` and `}}` stand for single braces. In a text that is not a URL, `%%H` stands for `%H`, so n + 1
/// percent signs before an H stand for n.
struct Placeholders {
    private let host: HostFacts
    /// The labels that the settings define correctly. Others are reported when the settings are read.
    private var labels: [ExactText: String] = [:]

    /// The settings with placeholders. `*` stands for any name, and for any index of an array.
    private static let urls = [
        ["namespaces", "*", "remote", "http", "url"], ["namespaces", "*", "remote", "sse", "url"],
        ["proxy", "url"], ["namespaces", "*", "remote", "*", "proxy", "url"],
        ["images", "origins", "*", "proxy", "url"], ["namespaces", "*", "remote", "sse", "pollUrl"],
        ["namespaces", "*", "remote", "etcd", "endpoints", "*"], ["report", "url"], ["report", "proxy", "url"],
    ]
    private static let texts = [
        ["namespaces", "*", "remote", "http", "headers", "*"], ["namespaces", "*", "remote", "sse", "headers", "*"],
        ["images", "origins", "*", "headers", "*"], ["namespaces", "*", "remote", "etcd", "prefix"],
        ["namespaces", "*", "remote", "etcd", "prefixes", "*"], ["namespaces", "*", "remote", "etcd", "key"],
        ["report", "headers", "*"],
    ]

    /// - Parameter settings: the settings, which contain the labels
    init(_ settings: SettingsValue, _ host: HostFacts) {
        self.host = host
        guard case .object(let members)? = settings.member("report")?.member("labels")?.content else { return }
        for member in members {
            if case .string(let text) = member.value.content { labels[ExactText(member.name)] = text }
        }
    }

    static func isLabelName(_ name: String) -> Bool {
        (1...64).contains(name.utf8.count)
            && name.utf8.allSatisfy { isNameByte($0) || $0 == UInt8(ascii: "_") }
    }

    /// Whether the byte can be part of a label of a host name: a letter, a digit or `-`.
    private static func isNameByte(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
            || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
            || byte == UInt8(ascii: "-")
    }

    /// Returns settings whose placeholders are replaced.
    ///
    /// - Throws: ``SettingsError`` for the first text with an invalid placeholder. It contains no value.
    func replaced(in settings: SettingsValue) throws(SettingsError) -> SettingsValue {
        try replaced(in: settings, at: .root)
    }

    private func replaced(
        in value: SettingsValue, at path: SettingsPath
    ) throws(SettingsError) -> SettingsValue {
        switch value.content {
        case .object(let members):
            var replaced: [SettingsValue.Member] = []
            for member in members {
                replaced.append(
                    SettingsValue.Member(
                        name: member.name, offset: member.offset,
                        value: try self.replaced(in: member.value, at: path.appending(member.name))))
            }
            return SettingsValue(content: .object(replaced), offset: value.offset)
        case .array(let elements):
            var replaced: [SettingsValue] = []
            for (index, element) in elements.enumerated() {
                replaced.append(try self.replaced(in: element, at: path.appending(index)))
            }
            return SettingsValue(content: .array(replaced), offset: value.offset)
        case .string(let text):
            let names = path.names
            let isURL = Self.urls.contains { matches(names, $0) }
            guard isURL || Self.texts.contains(where: { matches(names, $0) }) else { return value }
            do throws(Problem) {
                return SettingsValue(content: .string(try replaced(in: text, isURL: isURL)), offset: value.offset)
            } catch {
                throw SettingsError("\(path) \(error.reason)", member: path, offset: value.offset)
            }
        default: return value
        }
    }

    private func matches(_ path: [String], _ pattern: [String]) -> Bool {
        path.count == pattern.count && zip(path, pattern).allSatisfy { $1 == "*" || $0.isSpelled(as: $1) }
    }

    private struct Problem: Error {
        /// The problem and what to do, as a continuation of the path of the setting.
        let reason: String
        init(_ reason: String) { self.reason = reason }
    }

    private static let advice = "known are {hostname}, {hostId} and {label:NAME}; write {{ and }} for braces"

    /// Returns a text whose placeholders are replaced.
    ///
    /// - Parameter isURL: whether the values are percent-encoded, and restricted in the host
    private func replaced(in text: String, isURL: Bool) throws(Problem) -> String {
        var result = String.UnicodeScalarView()
        var rest = text.unicodeScalars[...]
        // The host ends with the first of these characters after the two slashes that begin it.
        var (slashes, isInHost) = (0, isURL)
        while let scalar = rest.popFirst() {
            let next = rest.first
            if scalar == "/" { slashes += 1 }
            if slashes > 2 || scalar == "?" || scalar == "#" { isInHost = false }
            switch scalar {
            case "%" where !isURL && rest.starts(with: "%H".unicodeScalars):
                rest = rest.dropFirst(2)
                result.append(contentsOf: "%H".unicodeScalars)
            case "%" where next == "H":
                throw Problem(
                    "contains %H, a specifier of systemd, which is not replaced here; write {hostname}"
                        + (isURL ? "" : ", or %%H for these characters"))
            // "${{" is not a variable: the braces stand for one.
            case "$" where next == "{" && !rest.starts(with: "{{".unicodeScalars):
                let name = rest.dropFirst().prefix { $0 != "}" }
                let form = String(name).lowercased() == "hostname" ? "write {hostname}" : Self.advice
                throw Problem("contains a variable of the environment, which is not replaced here; \(form)")
            case "{" where next == "{", "}" where next == "}":
                rest.removeFirst()
                result.append(scalar)
            case "}": throw Problem("contains a } without {; \(Self.advice)")
            case "{":
                guard let end = rest.firstIndex(of: "}") else {
                    throw Problem("contains a { without }; \(Self.advice)")
                }
                let name = String(rest[..<end])
                rest = rest[rest.index(after: end)...]
                let value = try value(of: name)
                if isInHost {
                    guard !value.isEmpty, value.utf8.allSatisfy(Self.isNameByte) else {
                        throw Problem(
                            "has {\(name)} in its host, but the value of this placeholder is empty or contains other "
                                + "characters than letters, digits and \"-\"; use it in the path or query, or change the value"
                        )
                    }
                }
                result.append(contentsOf: (isURL && !isInHost ? Self.encoded(value) : value).unicodeScalars)
            default: result.append(scalar)
            }
        }
        return String(result)
    }

    private func value(of name: String) throws(Problem) -> String {
        switch name {
        case "hostname": return host.name
        case "hostId":
            if let id = host.id { return id }
            throw Problem(
                "contains {hostId}, but this host has no machine ID in /etc/machine-id; run systemd-machine-id-setup")
        case _ where name.hasPrefix("label:"):
            let label = String(name.dropFirst("label:".count))
            guard Self.isLabelName(label) else { throw Problem("contains an invalid label name; \(Self.advice)") }
            if let value = labels[ExactText(label)] { return value }
            throw Problem("contains {\(name)}, which has no value; add the label \"\(label)\" to report.labels")
        default:
            let isWord = !name.isEmpty && name.utf8.count <= 32 && name.utf8.allSatisfy(Self.isNameByte)
            // The text between braces may be part of a secret if it is not like a placeholder.
            guard isWord else { throw Problem("contains an unknown placeholder; \(Self.advice)") }
            // A name that is only similar, such as {host}, may mean either.
            let meant = ["hostname", "hostId"].first { $0.lowercased() == name.lowercased() }
            let form = meant.map { "write {\($0)}, or {{ and }} for braces" } ?? Self.advice
            throw Problem("contains an unknown placeholder {\(name)}; \(form)")
        }
    }

    /// Percent-encodes all bytes except the unreserved ones (RFC 3986, section 2.3).
    private static func encoded(_ text: String) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var bytes: [UInt8] = []
        for byte in text.utf8 {
            if isNameByte(byte) || "._~".utf8.contains(byte) {
                bytes.append(byte)
            } else {
                bytes += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

extension SettingsValue {
    fileprivate func member(_ name: String) -> SettingsValue? {
        guard case .object(let members) = content else { return nil }
        return members.last { $0.name.isSpelled(as: name) }?.value
    }
}
