import ArgumentParser

/// Rewrites the arguments before they are parsed.
enum Arguments {
    /// Options with a value that may precede the verb.
    private static let valued = ["--socket", "--timeout", "--namespace", "-n"]
    /// Options without a value that may precede the verb.
    private static let flags = ["--json", "--raw"]

    /// Moves shared options that precede the verb to the place directly after the verb. `larder --socket PATH ping`
    /// thus becomes `larder ping --socket PATH`.
    static func normalized(_ arguments: [String]) -> [String] {
        let arguments = joiningNegativeValues(arguments)
        var leading: [String] = []
        var rest = arguments[...]
        while let first = rest.first {
            let count: Int
            if valued.contains(first) {
                count = 2
            } else if flags.contains(first) || valued.contains(where: { first.hasPrefix("\($0)=") }) {
                count = 1
            } else {
                break
            }
            leading += rest.prefix(count)
            rest = rest.dropFirst(count)
        }
        guard let verb = rest.first, !verb.hasPrefix("-") else { return arguments }
        // `larder image get` is a verb of two words.
        if !verbs(of: verb).isEmpty, let second = rest.dropFirst().first, !second.hasPrefix("-") {
            return [verb, second] + leading + rest.dropFirst(2)
        }
        return [verb] + negativeNumberLast(verb, leading + rest.dropFirst())
    }

    /// Options whose value is a time or a number.
    private static let numeric = [
        "--ttl", "--timeout", "--max-age", "--stale-if-error", "--splay", "--interval", "--kill-after", "--deadline",
        "--by", "--minimum", "--maximum", "--if-value",
    ]

    /// Joins `--by -1` to `--by=-1`, because the parser would take `-1` for an option. As a result, the error for a
    /// negative time is about the time, and not about an unknown option.
    private static func joiningNegativeValues(_ arguments: [String]) -> [String] {
        var joined: [String] = []
        for (index, argument) in arguments.enumerated() {
            let isNegative = argument.first == "-" && argument.dropFirst().first?.isNumber == true
            if isNegative, let option = joined.last, numeric.contains(option), !arguments[..<index].contains("--") {
                joined[joined.count - 1] = "\(option)=\(argument)"
            } else {
                joined.append(argument)
            }
        }
        return joined
    }

    /// Whether the arguments request results and errors in JSON. In `larder render`, `--json` means that the output
    /// file contains the configuration as JSON.
    static func requestsJSON(_ arguments: [String]) -> Bool {
        arguments.first != "render" && arguments.prefix { $0 != "--" }.contains("--json")
    }

    /// Rewrites `larder set a -5`, so that `-5` is a negative number and not an unknown option.
    private static func negativeNumberLast(_ verb: String, _ arguments: [String]) -> [String] {
        guard verb == "set", !arguments.contains("--"),
            let index = arguments.firstIndex(where: { $0.first == "-" && $0.dropFirst().first?.isNumber == true })
        else { return arguments }
        var arguments = arguments
        let number = arguments.remove(at: index)
        return arguments + ["--", number]
    }

    /// The unknown verb in the arguments, as one or two words; nil if the arguments have no verb, or the verb exists.
    static func unknownVerb(_ arguments: [String]) -> String? {
        guard let verb = arguments.first, !verb.hasPrefix("-"), verb != "help" else { return nil }
        guard verbs.contains(verb) else { return verb }
        guard let second = arguments.dropFirst().first, !second.hasPrefix("-") else { return nil }
        let seconds = verbs(of: verb)
        return seconds.isEmpty || seconds.contains(second) ? nil : "\(verb) \(second)"
    }

    private static var verbs: [String] { Larder.configuration.subcommands.map { $0._commandName } }

    /// The possible second words after a verb such as `image`; empty for verbs of one word.
    private static func verbs(of verb: String) -> [String] {
        let command = Larder.configuration.subcommands.first { $0._commandName == verb }
        return command?.configuration.subcommands.map { $0._commandName } ?? []
    }

    /// The command that shows the help for the verb in the arguments: `larder get --help`.
    static func helpCommand(_ arguments: [String]) -> String {
        guard let verb = arguments.first, verbs.contains(verb) else { return "larder --help" }
        guard let second = arguments.dropFirst().first, verbs(of: verb).contains(second) else {
            return "larder \(verb) --help"
        }
        return "larder \(verb) \(second) --help"
    }
}
