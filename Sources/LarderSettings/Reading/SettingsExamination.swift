internal import LarderJSON
internal import LarderJSON5

/// The result of reading a whole settings file, including its errors.
package struct SettingsExamination: Sendable {
    /// The settings without the invalid members; nil if the file cannot be parsed or has too many errors.
    package let settings: Settings?
    /// The errors, each with its line and column; empty if the settings are valid.
    package internal(set) var errors: [SettingsError]
    package internal(set) var pathLines = PathLines()
}

/// The lines of the absolute paths in a settings file. They show an administrator where the settings name a file that
/// cannot be used.
package struct PathLines: Sendable {
    /// The first line of each path in each section that contains it. A key consists of the names of the members that lead
    /// to the section, and the path.
    private var lines: [[ExactText]: Int] = [:]

    package init() {}

    /// The line of a path at its first occurrence in a section, or, if the section does not contain the path, in the
    /// file; nil if the file does not contain it.
    /// - Parameter section: the names of the members that lead to the section, such as `["namespaces", "web"]`
    package func line(of path: String, in section: [String] = []) -> Int? {
        lines[section.map(ExactText.init) + [ExactText(path)]] ?? lines[[ExactText(path)]]
    }

    /// Adds an occurrence of a path. Occurrences must be added in the order of their lines.
    /// - Parameter members: the names of the members that lead to the path
    fileprivate mutating func add(_ path: String, at members: [String], line: Int) {
        let names = members.map(ExactText.init)
        for count in 0...names.count {
            let key = names.prefix(count) + [ExactText(path)]
            if lines[Array(key)] == nil { lines[Array(key)] = line }
        }
    }
}

extension Settings {
    /// Reads a settings file and continues after errors. The errors are sorted by their position.
    ///
    /// - Throws: ``SettingsError`` if the file cannot be read
    package static func examine(file path: String) throws(SettingsError) -> SettingsExamination {
        do {
            var examination = examine(try SettingsFile.read(path), maxErrors: maxErrors)
            for index in examination.errors.indices { examination.errors[index].file = path }
            examination.errors.sort { ($0.line ?? 0, $0.column ?? 0) < ($1.line ?? 0, $1.column ?? 0) }
            return examination
        } catch {
            var error = error
            error.file = path
            throw error
        }
    }

    /// The number of errors after which the examination stops. The number is limited, because all settings are read
    /// again after each invalid member.
    private static let maxErrors = 1000

    /// Reads settings and continues after errors, as if the invalid members were missing.
    ///
    /// - Parameter areSaved: whether an earlier version may have saved the settings, so that they are migrated
    /// - Returns: the settings, and the errors in the order in which they were found
    static func examine(_ bytes: [UInt8], maxErrors: Int, areSaved: Bool = false) -> SettingsExamination {
        do throws(JSON5Error) {
            let scalars = try JSON5Parser.scalars(of: bytes)
            let (document, duplicates) = try JSON5Parser.parseAll(scalars)
            let (settings, errors) = examine(
                areSaved ? RenamedSettings.migrated(document) : document, maxErrors: maxErrors - duplicates.count)
            return SettingsExamination(
                settings: settings,
                errors: (duplicates.map { SettingsError($0) } + errors).map { $0.placed(in: scalars) },
                pathLines: document.pathLines(in: scalars))
        } catch {
            return SettingsExamination(settings: nil, errors: [SettingsError(error)])
        }
    }

    /// Reads the settings repeatedly, each time without the member that was invalid, until no error is left.
    private static func examine(
        _ document: SettingsValue, maxErrors: Int
    ) -> (settings: Settings?, errors: [SettingsError]) {
        var document = document
        var errors: [SettingsError] = []
        /// The offsets of objects from which an invalid member was removed. An error that may only be a consequence of
        /// the removal is not reported.
        var incomplete: Set<Int> = []
        while true {
            do throws(SettingsError) {
                return (try Settings(document), errors)
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
    fileprivate func pathLines(in scalars: [Unicode.Scalar]) -> PathLines {
        var lines = PathLines()
        var (line, start) = (1, 0)
        for (path, members, offset) in absolutePaths(at: []).sorted(by: { $0.offset < $1.offset }) {
            line += JSON5Text.place(of: offset - start, in: Array(scalars[start..<offset])).line - 1
            start = offset
            lines.add(path, at: members, line: line)
        }
        return lines
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

extension SettingsError {
    /// Returns the error with a line and column instead of an offset.
    fileprivate func placed(in scalars: [Unicode.Scalar]) -> SettingsError {
        guard let offset else { return self }
        var error = self
        (error.line, error.column) = JSON5Text.place(of: offset, in: scalars)
        error.offset = nil
        return error
    }
}
