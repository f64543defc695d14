import LarderEncoding
import LarderJSON
internal import LarderJSON5

/// Reads the members of one object in the settings. Errors name the member and the values that it can have.
///
/// A member that is `null` counts as missing.
struct SettingsReader {
    private let members: [ExactText: SettingsValue.Member]
    private let path: SettingsPath
    private let offset: Int

    /// Creates a reader for an object.
    ///
    /// - Parameter known: the members that the object can have; nil if it can have any
    /// - Throws: `wrongType` if the value is not an object; `unknownMember` if it has a member that is not in `known`
    init(_ value: SettingsValue, at path: SettingsPath, knowing known: [String]?) throws(SettingsError) {
        guard case .object(let members) = value.content else {
            throw SettingsError(
                "\(path) must be an object in braces, not \(value.shown)", member: path,
                offset: value.offset)
        }
        let isUnknown = { (member: SettingsValue.Member) in
            known.map { !$0.contains { member.name.isSpelled(as: $0) } } ?? false
        }
        if let known, let unknownMember = members.first(where: isUnknown) {
            let member = path.appending(unknownMember.name)
            let problem =
                if let newName = RenamedSettings.newName(of: unknownMember.name, in: path.names) {
                    "\(member) is now called \(path.appending(newName)); rename it"
                } else {
                    "\(member) is not a setting; \(NearestName.advice(for: unknownMember.name, among: known))"
                }
            throw SettingsError(problem, code: .unknownMember, member: member, offset: unknownMember.offset)
        }
        // The closure chooses between two members with the same name. It is never called: the names are distinct,
        // because the parser rejects duplicates.
        self.members = Dictionary(members.map { (ExactText($0.name), $0) }) { first, _ in first }
        self.path = path
        self.offset = value.offset
    }

    /// The names of all members, including those that are `null`, in alphabetical order.
    var names: [String] { members.keys.map(\.text).sorted() }

    /// Whether the member exists and is not `null`.
    func has(_ name: String) -> Bool { value(name) != nil }

    /// Whether the member exists and is `null`.
    func isNull(_ name: String) -> Bool { members[ExactText(name)] != nil && value(name) == nil }

    /// The value of a member; nil if it is missing or `null`.
    func value(_ name: String) -> SettingsValue? {
        guard let value = members[ExactText(name)]?.value else { return nil }
        if case .null = value.content { return nil }
        return value
    }

    /// Reads a member with the function `read`, which gets the value and path of the member. Returns nil if the member
    /// is missing or `null`.
    func section<Section>(
        _ name: String, _ read: (SettingsValue, SettingsPath) throws(SettingsError) -> Section
    ) throws(SettingsError) -> Section? {
        guard let value = value(name) else { return nil }
        return try read(value, path.appending(name))
    }

    /// Reads a string that passes a check.
    ///
    /// - Parameter expected: the allowed values, as a continuation of "must be"
    func string(
        _ name: String, expected: String, where isValid: (String) -> Bool
    ) throws(SettingsError) -> String? {
        guard let value = value(name) else { return nil }
        guard case .string(let text) = value.content, isValid(text) else { throw invalid(name, expected, value) }
        return text
    }

    /// Returns a string that may be a secret; nil if the value is not a string. Throws no error, because the text of an
    /// error would show the value.
    func unshownString(_ name: String) -> String? {
        guard case .string(let text)? = value(name)?.content else { return nil }
        return text
    }

    /// Reads an array of strings that each pass a check.
    ///
    /// - Parameter expected: the allowed elements, as a continuation of "must be"
    func strings(
        _ name: String, each expected: String, where isValid: (String) -> Bool
    ) throws(SettingsError) -> [String]? {
        guard let value = value(name) else { return nil }
        guard case .array(let elements) = value.content else { throw invalid(name, "an array of strings", value) }
        var texts: [String] = []
        for (index, element) in elements.enumerated() {
            guard case .string(let text) = element.content, isValid(text) else {
                throw failure(name, at: index, element, "must be \(expected), not \(element.shown)")
            }
            texts.append(text)
        }
        return texts
    }

    /// Reads an absolute path.
    func path(_ name: String, maximumBytes: Int = 4095) throws(SettingsError) -> String? {
        try string(name, expected: "an absolute path in quotes, of at most \(maximumBytes) bytes") {
            $0.hasPrefix("/") && $0.utf8.count <= maximumBytes && !$0.utf8.contains(0)
        }
    }

    /// Reads a section that names only a directory.
    func directory(in name: String) throws(SettingsError) -> String? {
        try section(name) { (value, path) throws(SettingsError) in
            try SettingsReader(value, at: path, knowing: ["directory"]).path("directory")
        } ?? nil
    }

    /// Reads one of several keywords.
    func choice<Keyword: CaseIterable & RawRepresentable<String>>(_ name: String) throws(SettingsError) -> Keyword? {
        let words = Keyword.allCases.map { "\"\($0.rawValue)\"" }
        let word = try string(name, expected: "one of \(words.joined(separator: ", "))") {
            Keyword(rawValue: $0) != nil
        }
        return word.flatMap(Keyword.init(rawValue:))
    }

    /// Reads permission bits: three octal digits, with an optional leading 0.
    func permissions(_ name: String, example: String) throws(SettingsError) -> UInt32? {
        let digits = try string(name, expected: "octal permissions in quotes, such as \"\(example)\"") { text in
            text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "7")).contains($0) }
                && (text.utf8.count == 3 || (text.utf8.count == 4 && text.hasPrefix("0")))
        }
        return digits.flatMap { UInt32($0, radix: 8) }
    }

    func truth(_ name: String) throws(SettingsError) -> Bool? {
        guard let value = value(name) else { return nil }
        guard case .bool(let truth) = value.content else { throw invalid(name, "true or false", value) }
        return truth
    }

    /// Reads a whole number within a range.
    func integer(_ name: String, in range: ClosedRange<Int>) throws(SettingsError) -> Int? {
        let expected = "a whole number from \(range.lowerBound) to \(range.upperBound)"
        guard let value = value(name) else { return nil }
        guard case .number(let number, _) = value.content, let integer = Int(exactly: number), range.contains(integer)
        else { throw invalid(name, expected, value) }
        return integer
    }

    /// Reads a time in seconds, possibly with a fraction.
    func seconds(_ name: String, in range: ClosedRange<Double>) throws(SettingsError) -> Duration? {
        let expected = "a number of seconds from \(Self.short(range.lowerBound)) to \(Self.short(range.upperBound))"
        guard let value = value(name) else { return nil }
        guard case .number(let number, _) = value.content, range.contains(number) else {
            throw invalid(name, expected, value)
        }
        return .seconds(number)
    }

    private static func short(_ number: Double) -> String {
        Int(exactly: number).map(String.init) ?? String(number)
    }

    private func invalid(_ name: String, _ expected: String, _ value: SettingsValue) -> SettingsError {
        let member = path.appending(name)
        return SettingsError("\(member) must be \(expected), not \(value.shown)", member: member, offset: value.offset)
    }

    /// Returns an error about an element of a member that is an array.
    func failure(_ name: String, at index: Int, _ element: SettingsValue, _ problem: String) -> SettingsError {
        let member = path.appending(name).appending(index)
        return SettingsError("\(member) \(problem)", member: member, offset: element.offset)
    }

    /// Returns an error about a member, or about the object itself if `name` is nil.
    ///
    /// - Parameter problem: the problem and what to do, as a continuation of the path of the setting
    func failure(_ name: String? = nil, _ problem: String) -> SettingsError {
        let member = name.map(path.appending) ?? path
        let offset = name.flatMap { members[ExactText($0)]?.offset } ?? offset
        var error = SettingsError("\(member) \(problem)", member: member, offset: offset)
        error.isContextual = true
        return error
    }
}

typealias SettingsValue = JSON5Value
typealias SettingsPath = JSON5Path

extension SettingsError {
    /// Converts a parse error.
    init(_ error: JSON5Error) {
        self.init(error.reason, member: error.member, offset: error.offset)
        if let place = error.place { (line, column, offset) = (place.line, place.column, nil) }
    }
}
