package import LarderJSON
internal import LarderJSON5

/// The result of reading all files of the settings, including their errors.
package struct SettingsExamination: Sendable {
    /// The settings without the invalid members; nil if a file cannot be parsed or there are too many errors.
    package let settings: Settings?
    /// The errors, each with its file, line and column, in the order of the files and lines; empty if the settings are
    /// valid.
    package internal(set) var errors: [SettingsError]
    package internal(set) var pathLines = PathLines()
    /// Whether the settings file itself exists. If not, `larder.d` has files.
    package internal(set) var isPresent = true
    /// The merged settings as written, including the invalid members; nil if a file cannot be parsed.
    var document: SettingsValue?
    var text = SettingsText()
}

/// The lines of the absolute paths in the files of the settings. They show an administrator where the settings name a file
/// that cannot be used.
package struct PathLines: Sendable {
    private struct Place {
        let file: String?
        let line: Int
    }

    /// The first place of each path in each section that contains it. A key consists of the names of the members that
    /// lead to the section, and the path.
    private var places: [[ExactText]: Place] = [:]

    package init() {}

    /// The file and line of a path at its first occurrence in a section, or, if the section does not contain the path, in
    /// the settings; nil if the settings do not contain it, or do not come from files.
    /// - Parameter section: the names of the members that lead to the section, such as `["namespaces", "web"]`
    package func place(of path: String, in section: [String] = []) -> (file: String, line: Int)? {
        let place = places[section.map(ExactText.init) + [ExactText(path)]] ?? places[[ExactText(path)]]
        return place.flatMap { place in place.file.map { ($0, place.line) } }
    }

    /// Adds an occurrence of a path. Occurrences must be added in the order of their files and lines.
    /// - Parameter members: the names of the members that lead to the path
    fileprivate mutating func add(_ path: String, at members: [String], file: String?, line: Int) {
        let names = members.map(ExactText.init)
        for count in 0...names.count {
            let key = names.prefix(count) + [ExactText(path)]
            if places[Array(key)] == nil { places[Array(key)] = Place(file: file, line: line) }
        }
    }
}

/// A value of the merged settings.
package struct SettingOrigin: Sendable {
    /// The setting, such as `limits.connections`.
    package let name: String
    /// The value; nil for a header field, which may be a secret.
    package let value: JSONValue?
    package let file: String
    /// The line, from 1.
    package let line: Int
}

extension SettingsExamination {
    /// Each value of the settings that is not an object, and each empty object, as written, with its place; in the order of
    /// the merged settings.
    package var origins: [SettingOrigin] {
        let values = document?.values(at: .root) ?? []
        // The places are computed in one pass over each text.
        let order = values.indices.sorted { values[$0].offset < values[$1].offset }
        var places = [(file: String?, line: Int)](repeating: (nil, 1), count: values.count)
        for (index, place) in zip(order, text.lines(of: order.map { values[$0].offset })) { places[index] = place }
        return zip(values, places).map { found, place in
            let (path, value, _) = found
            let isSecret = path.names.dropLast().last?.isSpelled(as: "headers") == true
            return SettingOrigin(
                name: path.description, value: isSecret ? nil : value.json ?? .null, file: place.file ?? "",
                line: place.line)
        }
    }
}

extension Settings {
    /// Reads a settings file and the files of the directory `larder.d` beside it, and continues after errors. The errors
    /// are sorted by their position.
    ///
    /// - Throws: ``SettingsError`` if a file cannot be read
    package static func examine(
        file path: String, host: HostFacts = HostFacts()
    ) throws(SettingsError) -> SettingsExamination {
        let files = try SettingsFile.all(at: path)
        var examination = examine(files, maxErrors: maxErrors, host: host)
        examination.isPresent = files.first?.isPatch == false
        return examination
    }

    /// The number of errors after which the examination stops. The number is limited, because all settings are read
    /// again after each invalid member.
    private static let maxErrors = 1000

    /// Reads settings that do not come from a file.
    static func examine(
        _ bytes: [UInt8], maxErrors: Int, areSaved: Bool = false, host: HostFacts = HostFacts()
    ) -> SettingsExamination {
        examine(
            [SettingsFile(path: nil, isPatch: false, text: bytes)], maxErrors: maxErrors, areSaved: areSaved, host: host
        )
    }

    /// Reads settings and continues after errors, as if the invalid members were missing.
    ///
    /// - Parameter areSaved: whether an earlier version may have saved the settings, so that they are migrated
    static func examine(
        _ files: [SettingsFile], maxErrors: Int, areSaved: Bool = false, host: HostFacts = HostFacts()
    ) -> SettingsExamination {
        var text = SettingsText()
        var document = SettingsValue(content: .object([]), offset: 0)
        var (failures, found): ([SettingsError], [SettingsError]) = ([], [])
        for file in files {
            do throws(SettingsError) {
                let (value, duplicates) = try text.parse(file)
                found += duplicates
                // A merge patch that is not an object would replace all settings.
                _ = try SettingsReader(value, at: .root, knowing: nil)
                document = file.isPatch ? document.merged(with: value) : value
            } catch {
                failures.append(text.placed(error))
            }
        }
        if !failures.isEmpty {
            return SettingsExamination(settings: nil, errors: failures + found.map(text.placed))
        }
        if areSaved { document = RenamedSettings.migrated(document) }
        let (settings, errors) = examine(document, maxErrors: maxErrors - found.count, host)
        found += errors
        found.sort { ($0.offset ?? 0) < ($1.offset ?? 0) }
        return SettingsExamination(
            settings: settings, errors: found.map(text.placed), pathLines: document.pathLines(in: text),
            document: document, text: text)
    }

    /// Reads the settings repeatedly, each time without the member that was invalid, until no error is left.
    private static func examine(
        _ document: SettingsValue, maxErrors: Int, _ host: HostFacts
    ) -> (settings: Settings?, errors: [SettingsError]) {
        var document = document
        var errors: [SettingsError] = []
        /// The offsets of objects from which an invalid member was removed. An error that may only be a consequence of
        /// the removal is not reported.
        var incomplete: Set<Int> = []
        while true {
            do throws(SettingsError) {
                return (try Settings(try Placeholders(document, host).replaced(in: document)), errors)
            } catch {
                guard let offset = error.offset else { return (nil, errors + [error]) }
                let parent = document.objectOffset(around: offset)
                let isConsequence =
                    error.isContextual && (incomplete.contains(offset) || parent.map(incomplete.contains) == true)
                if !isConsequence { errors.append(error) }
                guard errors.count < maxErrors, let rest = document.removing(at: offset) else {
                    return (nil, errors)
                }
                // Removing an unknown member does not cause other errors.
                if let parent, error.code != .unknownMember { incomplete.insert(parent) }
                document = rest
            }
        }
    }
}

extension SettingsValue {
    /// See ``SettingsExamination/pathLines``.
    fileprivate func pathLines(in text: SettingsText) -> PathLines {
        var lines = PathLines()
        let paths = absolutePaths(at: []).sorted { $0.offset < $1.offset }
        for (found, place) in zip(paths, text.lines(of: paths.map(\.offset))) {
            lines.add(found.path, at: found.members, file: place.file, line: place.line)
        }
        return lines
    }

    /// See ``SettingsExamination/origins``.
    fileprivate func values(at path: SettingsPath) -> [(path: SettingsPath, value: SettingsValue, offset: Int)] {
        guard case .object(let members) = content, !members.isEmpty else { return [(path, self, offset)] }
        return members.flatMap { $0.value.values(at: path.appending($0.name)) }
    }

    /// Returns the texts that begin with a slash, with the names of the members that lead to them, and their offsets.
    /// - Parameter names: the names of the members that lead to this value
    private func absolutePaths(at names: [String]) -> [(path: String, members: [String], offset: Int)] {
        switch content {
        case .object(let members): members.flatMap { $0.value.absolutePaths(at: names + [$0.name]) }
        case .array(let elements): elements.flatMap { $0.absolutePaths(at: names) }
        case .string(let text): text.hasPrefix("/") ? [(text, names, offset)] : []
        default: []
        }
    }

    /// The offset of the object or array whose member or element is at the offset `place`; nil if no member or element
    /// is there.
    fileprivate func objectOffset(around place: Int) -> Int? {
        let children: [(offset: Int, value: SettingsValue)] =
            switch content {
            case .object(let members): members.map { ($0.offset, $0.value) }
            case .array(let elements): elements.map { ($0.offset, $0) }
            default: []
            }
        if children.contains(where: { $0.offset == place || $0.value.offset == place }) { return offset }
        for child in children {
            if let found = child.value.objectOffset(around: place) { return found }
        }
        return nil
    }
}
