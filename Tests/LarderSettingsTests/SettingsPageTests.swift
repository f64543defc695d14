import Foundation
import LarderSettings
import Testing

/// larder.json(5) is written by hand; the readers of the settings say themselves what they know.
@Suite("the manual page of the settings")
struct SettingsPageTests {
    @Test("it has every setting that the agent knows, and no other")
    func isComplete() throws {
        let known = Set(KnownSettings.all())
        let told = Set(try SettingsPage().entries.keys)
        #expect(known.count > 80)
        #expect(known.subtracting(told).sorted() == [], "these are not on the page")
        #expect(told.subtracting(known).sorted() == [], "these are no settings")
    }

    @Test("each entry says whether there is a default and when a change takes effect")
    func saysWhatMatters() throws {
        for (setting, text) in try SettingsPage().entries {
            #expect(text.contains("default") || text.contains("required"), "\(setting)")
            #expect(text.contains("on reload.") || text.contains("at the next start."), "\(setting)")
        }
    }

    @Test("it has the ranges and words that the agent's errors name")
    func rangesAgree() throws {
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

    @Test("what it calls a default is what is in force without the setting")
    func defaultsAgree() throws {
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

/// The entries of the page, each setting by its whole name.
private struct SettingsPage {
    private(set) var entries: [String: String] = [:]

    init() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let page = try String(
            contentsOf: root.appending(path: "packaging/man/pages/larder.json.5.in"), encoding: .utf8)
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

    /// A line of the page without its macros.
    private static func plain(_ line: Substring) -> String {
        guard line.hasPrefix(".") else { return String(line) }
        let words = line.split(separator: " ")
        if words.count > 1, words[0] == ".Qq" { return "\"\(words[1])\"" + words.dropFirst(2).joined(separator: " ") }
        return words.dropFirst().joined(separator: " ")
    }
}

/// What the readers of the settings know, found out by asking them about a member that cannot exist.
private enum KnownSettings {
    /// Objects whose members have free names, with what stands for these on the page and one that will do.
    private static let free = [
        "namespaces": ("NAME", "a"), "images.origins": ("ORIGIN", "https://img.example.org"),
    ]
    /// What has to be there before anything else is looked at.
    private static let needed = [
        "namespaces.NAME.remote.http": "url: 'https://h'", "namespaces.NAME.remote.sse": "url: 'https://h'",
        "namespaces.NAME.remote.etcd": "endpoints: ['https://h'], prefix: ''",
    ]
    private static let stranger = String(repeating: "#", count: 60)

    /// Every setting that is no object of further ones.
    static func all() -> [String] { leaves(of: "") }

    private static func leaves(of section: String) -> [String] {
        guard let names = members(of: section) else { return [section] }
        return names.flatMap { name in
            let member = section.isEmpty ? name : "\(section).\(name)"
            return leaves(of: free[member].map { "\(member).\($0.0)" } ?? member)
        }
    }

    /// The members that an object may have; nil for what is no object.
    private static func members(of section: String) -> [String]? {
        do throws(SettingsError) {
            _ = try Settings(parsing: Array(text(section, "{'\(stranger)': 1}").utf8))
            return nil
        } catch {
            let list = error.code == .unknownMember ? error.reason.split(separator: "known here: ").last : nil
            return list?.split(separator: ", ").map(String.init)
        }
    }

    /// What the agent says to a value that is wrong for most settings.
    static func refusal(of setting: String, _ value: String) -> String? {
        do {
            _ = try settings(with: setting, value)
            return nil
        } catch {
            return error.reason
        }
    }

    /// Settings with one of them, or without it but with all that it is in.
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
        let given = free[path].flatMap { $0.0 == name ? $0.1 : nil } ?? name
        let inner = object(rest.dropFirst(), member, value)
        let members = [needed[path], inner.isEmpty ? nil : "'\(given)': \(inner)"].compactMap(\.self)
        return "{\(members.joined(separator: ", "))}"
    }
}
