import LarderClientCore

/// The rules that turn configuration into environment variables, for `larder exec` and `larder render --env`.
///
/// Each value that is not an object becomes a variable. The name of the variable consists of the member names on the
/// path to the value, joined by `_`. The letters a to z are converted to upper case, and every character but A to Z, 0
/// to 9 and `_` becomes `_`. Strings are used unchanged, numbers, `true` and `false` as they are written, and arrays as
/// JSON. An empty object yields no variable.
struct EnvironmentMapping: Equatable {
    /// The prefix of all names.
    var prefix = ""

    /// Returns the variables of a configuration, in the order of its members.
    /// - Parameter path: the path of `value` in the namespace, for errors. The names of variables do not include it.
    /// - Throws: ``Failure`` if `value` is not an object, if two paths yield the same name, if a value contains a NUL
    ///   character, or if a variable would change how programs are found or loaded.
    func variables(of value: JSONValue, at path: JSONPath) throws(Failure) -> EnvironmentVariables {
        guard value.kind == .object else {
            throw Failure(
                .failure,
                "the value at \"\(path)\" has the type \(value.kind), but only members of an object can become variables; "
                    + "select an object with --path"
            )
        }
        var found = Found()
        try add(value, path.segments, name: prefix, to: &found)
        return found.variables
    }

    /// Whether a text is a valid beginning of a variable name.
    static func isPrefix(_ text: String) -> Bool {
        guard let first = text.utf8.first, !isDigit(first) else { return false }
        return text.utf8.allSatisfy { isDigit($0) || $0 == UInt8(ascii: "_") || isLetter($0) }
    }

    private struct Found {
        var variables = EnvironmentVariables()
        var paths: [String: JSONPath] = [:]
    }

    private func add(_ object: JSONValue, _ path: [String], name: String, to found: inout Found) throws(Failure) {
        for (member, value) in object.members {
            let path = path + [member]
            let name = name + Self.word(member)
            if value.kind == .object {
                try add(value, path, name: name + "_", to: &found)
                continue
            }
            // Shells do not accept a variable name that is empty or begins with a digit, so put `_` before it.
            let isName = name.utf8.first.map { !Self.isDigit($0) } ?? false
            try add(value, JSONPath(path), variable: isName ? name : "_" + name, to: &found)
        }
    }

    private func add(
        _ value: JSONValue, _ path: JSONPath, variable name: String, to found: inout Found
    ) throws(Failure) {
        if let other = found.paths.updateValue(path, forKey: name) {
            throw Failure(
                .failure,
                "\"\(other)\" and \"\(path)\" would both become the variable \(name); rename one, or select a part with "
                    + "--path")
        }
        if Self.affectsExecution(name) {
            throw Failure(
                .failure,
                "\"\(path)\" would become the variable \(name), which can change what code a program runs; add --prefix, "
                    + "or rename it"
            )
        }
        let text = value.string ?? value.compactText
        if text.utf8.contains(0) {
            throw Failure(
                .failure,
                "the value at \"\(path)\" contains a NUL character, which a variable cannot contain; remove it")
        }
        found.variables.append(name, text)
    }

    /// Returns the form that a member name has within the name of a variable.
    private static func word(_ name: String) -> String {
        var word = ""
        for scalar in name.unicodeScalars {
            switch scalar {
            case "a"..."z": word.unicodeScalars.append(Unicode.Scalar(UInt8(scalar.value) - 0x20))
            case "A"..."Z", "0"..."9": word.unicodeScalars.append(scalar)
            default: word += "_"
            }
        }
        return word
    }

    /// Whether a variable can change what code a program runs. The list of such variables cannot be complete, because
    /// every interpreter has its own. With a prefix (`--prefix`), users can avoid all such names.
    private static func affectsExecution(_ name: String) -> Bool {
        name.hasPrefix("LD_") || name.hasPrefix("BASH_FUNC_") || executionVariables.contains(name)
    }

    private static let executionVariables: Set = [
        // The C library: ld.so(8), iconv(3), setlocale(3), catopen(3).
        "GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH",
        // Shells: sh(1), bash(1).
        "PATH", "IFS", "ENV", "CDPATH", "PS4", "BASH_ENV", "BASHOPTS", "SHELLOPTS", "PROMPT_COMMAND",
        // Interpreters and virtual machines.
        "PERL5OPT", "PERL5LIB", "PERLLIB", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "RUBYOPT", "RUBYLIB",
        "NODE_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS",
    ]

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    private static func isLetter(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
    }
}

/// Environment variables in the order of the configuration. Equality ignores the order.
struct EnvironmentVariables: Equatable {
    private(set) var names: [String] = []
    private(set) var values: [String: String] = [:]

    /// Adds a variable. There must be no variable with this name yet.
    mutating func append(_ name: String, _ value: String) {
        names.append(name)
        values[name] = value
    }

    static func == (left: Self, right: Self) -> Bool { left.values.isSpelled(as: right.values) }

    /// The variables as a file for shells (`set -a; . FILE`) and systemd (`EnvironmentFile=`): one variable per line,
    /// in double quotes if the value needs them.
    var fileText: String {
        names.map { "\($0)=\(Self.quoted(values[$0] ?? ""))\n" }.joined()
    }

    private static func quoted(_ value: String) -> String {
        let isPlain = value.unicodeScalars.allSatisfy { scalar in
            switch scalar {
            case "a"..."z", "A"..."Z", "0"..."9": true
            default: "_-./:@%+,=".unicodeScalars.contains(scalar)
            }
        }
        if isPlain { return value }
        // Shells and systemd treat double quotes alike: a backslash escapes these characters, all others are literal,
        // including line ends.
        let escaped = value.unicodeScalars.reduce(into: "") { text, scalar in
            text += "\"\\$`".unicodeScalars.contains(scalar) ? "\\\(scalar)" : String(scalar)
        }
        return "\"\(escaped)\""
    }
}
