import Foundation
import LarderSettings
import TestSupport
import Testing

/// Compares larder.json(5), which is written by hand, with the settings that the agent reads.
@Suite("Manual page of the settings")
struct SettingsPageTests {
    @Test("the page has exactly the settings that the agent reads")
    func completeness() throws {
        let known = Set(KnownSettings.all())
        let documented = Set(try SettingsPage().entries.keys)
        #expect(known.count > 80)
        #expect(known.subtracting(documented).sorted() == [], "missing on the page")
        #expect(documented.subtracting(known).sorted() == [], "unknown to the agent")
    }

    @Test("each entry states the default and when a change takes effect")
    func defaultAndEffect() throws {
        for (setting, text) in try SettingsPage().entries {
            #expect(text.contains("default") || text.contains("required"), "\(setting)")
            #expect(text.contains("on reload.") || text.contains("at the next start."), "\(setting)")
        }
    }

    @Test("each entry states the ranges and values that the agent's error messages name")
    func ranges() throws {
        for (setting, text) in try SettingsPage().entries {
            let reasons = [KnownSettings.refusal(of: setting, "false"), KnownSettings.refusal(of: setting, "0.01")]
            for reason in reasons.compactMap(\.self) {
                for range in reason.matches(of: /from [0-9.]+ to [0-9.]+/) {
                    #expect(text.contains(range.output), "\(setting): \(reason)")
                }
                if let words = reason.firstMatch(of: /must be one of (.*), not/) {
                    for word in words.1.split(separator: ", ") { #expect(text.contains(word), "\(setting): \(reason)") }
                }
                if reason.contains("must be true or false") { #expect(text.contains("true or false"), "\(setting)") }
            }
        }
    }

    @Test("the documented defaults equal the agent's defaults")
    func defaults() throws {
        var count = 0
        for (setting, text) in try SettingsPage().entries {
            guard let match = text.firstMatch(of: /default ("[^"]+"|[0-9.]+[0-9]|[0-9]|true|false)/) else { continue }
            let without = try KnownSettings.settings(with: setting, nil)
            let with =
                (try? KnownSettings.settings(with: setting, "\(match.1)"))
                ?? (try? KnownSettings.settings(with: setting, "[\(match.1)]"))
            #expect(with == without, "\(setting) = \(match.1)")
            count += 1
        }
        #expect(count > 30)
    }
}

/// The entries of the manual page larder.json(5), keyed by the full name of the setting.
private struct SettingsPage {
    private(set) var entries: [String: String] = [:]

    init() throws {
        let page = try String(
            contentsOf: Checkout.root.appending(path: "packaging/man/pages/larder.json.5.in"), encoding: .utf8)
        var (isSettings, section, names) = (false, "", [String]())
        for line in page.split(separator: "\n") {
            if line.hasPrefix(".Sh ") { isSettings = line == ".Sh SETTINGS" }
            guard isSettings else { continue }
            if line.hasPrefix(".Ss ") {
                (section, names) = (String(line.dropFirst(4)), [])
            } else if line.hasPrefix(".It Ic ") {
                names = line.dropFirst(7).split(separator: " , ").map { "\(section).\($0)" }
                for name in names { entries[name] = "" }
            } else if line.hasPrefix(".El") {
                names = []
            } else {
                for name in names { entries[name]! += Self.plain(line) + " " }
            }
        }
    }

    /// Returns a line of the page without its macro.
    private static func plain(_ line: Substring) -> String {
        guard line.hasPrefix(".") else { return String(line) }
        let words = line.split(separator: " ")
        if words.count > 1, words[0] == ".Qq" { return "\"\(words[1])\"" + words.dropFirst(2).joined(separator: " ") }
        return words.dropFirst().joined(separator: " ")
    }
}

/// The settings that the agent reads, taken from the error for an unknown member, which lists the known members.
private enum KnownSettings {
    /// The objects whose members have arbitrary names. For each, the placeholder that the page uses for such a name,
    /// and a valid name.
    private static let placeholders = [
        "namespaces": ("NAME", "a"), "images.origins": ("ORIGIN", "https://img.example.org"),
    ]
    /// Required members of objects. If they are missing, the agent does not check the other members of the object.
    private static let requiredMembers = [
        "namespaces.NAME.remote.http": "url: 'https://h'", "namespaces.NAME.remote.sse": "url: 'https://h'",
        "namespaces.NAME.remote.etcd": "endpoints: ['https://h'], prefix: ''",
        "namespaces.NAME.schema": "path: '/s.json'", "proxy": "url: 'http://p'", "report": "url: 'https://h'",
        "report.proxy": "url: 'http://p'",
        "namespaces.NAME.remote.http.proxy": "url: 'http://p'", "namespaces.NAME.remote.sse.proxy": "url: 'http://p'",
        "namespaces.NAME.remote.etcd.proxy": "url: 'http://p'", "images.origins.ORIGIN.proxy": "url: 'http://p'",
    ]
    private static let unknownName = String(repeating: "#", count: 60)

    /// Returns the full names of all settings, except objects that contain settings.
    static func all() -> [String] { leaves(of: "") }

    private static func leaves(of section: String) -> [String] {
        guard let names = members(of: section) else { return [section] }
        return names.flatMap { name in
            let member = section.isEmpty ? name : "\(section).\(name)"
            return leaves(of: placeholders[member].map { "\(member).\($0.0)" } ?? member)
        }
    }

    /// Returns the members that an object may have; nil if the setting is not an object.
    private static func members(of section: String) -> [String]? {
        do throws(SettingsError) {
            _ = try Settings(parsing: Array(text(section, "{'\(unknownName)': 1}").utf8))
            return nil
        } catch {
            let list = error.code == .unknownMember ? error.reason.split(separator: "known here: ").last : nil
            return list?.split(separator: ", ").map(String.init)
        }
    }

    /// Returns the reason in the error for a value; nil if the value is valid.
    static func refusal(of setting: String, _ value: String) -> String? {
        do {
            _ = try settings(with: setting, value)
            return nil
        } catch {
            return error.reason
        }
    }

    /// Parses settings that contain one setting.
    /// - Parameter value: nil to leave out the setting, but not the objects around it
    static func settings(with setting: String, _ value: String?) throws(SettingsError) -> Settings {
        try Settings(parsing: Array(text(setting, value).utf8))
    }

    private static func text(_ path: String, _ value: String?) -> String {
        guard !path.isEmpty else { return value ?? "{}" }
        return object(path.split(separator: ".").map(String.init)[...], "", value)
    }

    private static func object(_ rest: ArraySlice<String>, _ path: String, _ value: String?) -> String {
        guard let name = rest.first else { return value ?? "" }
        let member = path.isEmpty ? name : "\(path).\(name)"
        let given = placeholders[path].flatMap { $0.0 == name ? $0.1 : nil } ?? name
        let inner = object(rest.dropFirst(), member, value)
        let members = [requiredMembers[path], inner.isEmpty ? nil : "'\(given)': \(inner)"].compactMap(\.self)
        return "{\(members.joined(separator: ", "))}"
    }
}
