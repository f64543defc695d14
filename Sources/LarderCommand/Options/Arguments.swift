import ArgumentParser
import LarderEncoding

/// Rewrites the arguments before they are parsed.
enum Arguments {
    /// Options with a value that may precede the verb.
    private static let valued = ["--socket", "--timeout", "--namespace", "-n"]
    /// Options without a value that may precede the verb.
    private static let flags = ["--json", "--raw"]

    /// Moves shared options that precede the verb to the place directly after the verb, and joins options with values
    /// that begin with a dash. `larder --timeout -1s ping` thus becomes `larder ping --timeout=-1s`.
    static func normalized(_ arguments: [String]) -> [String] {
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
        let words = verbWords(rest)
        let others = joiningValues(words, leading + rest.dropFirst(words.count))
        return words + (verb == "set" ? literalsLast(others) : others)
    }

    /// Joins `--reason` and `-5 %` to `--reason=-5 %`, because the parser would take `-5 %` for an option. Writes `--` after
    /// an option whose further words belong to a program.
    private static func joiningValues(_ verb: [String], _ arguments: [String]) -> [String] {
        // The help lists the options. It is only created if there is such a pair of words.
        var options: VerbOptions?
        var joined: [String] = []
        var rest = arguments[...]
        while let word = rest.popFirst() {
            if takesRest(verb, word) { return joined + [word] + (rest.first == "--" ? [] : ["--"]) + rest }
            // In `larder image get`, the parser takes what follows `--` as a program, even without --exec.
            if word == "--" { return joined + (isImageGet(verb) ? [] : [word]) + rest }
            if word.hasPrefix("-"), let value = rest.first, value.hasPrefix("-") {
                if options == nil { options = VerbOptions(of: verb) }
                if options?.valued.contains(word) == true {
                    joined.append("\(word)=\(value)")
                    rest = rest.dropFirst()
                    continue
                }
            }
            joined.append(word)
        }
        return joined
    }

    /// Whether an option takes all further words, as `larder image get URL --exec PROGRAM -o {}`.
    private static func takesRest(_ verb: [String], _ option: String) -> Bool {
        isImageGet(verb) && option == "--exec"
    }

    private static func isImageGet(_ verb: [String]) -> Bool { verb == ["image", "get"] }

    /// Rewrites `larder set a -5`, so that `-5` is a value and not an unknown option. The same applies to any word that
    /// cannot be the name of an option, such as a private key, which begins with five dashes.
    private static func literalsLast(_ arguments: [String]) -> [String] {
        if arguments.contains("--") { return arguments }
        func isLiteral(_ word: String) -> Bool { word.hasPrefix("-") && !VerbOptions.isName(word) }
        let literals = arguments.filter(isLiteral)
        return literals.isEmpty ? arguments : arguments.filter { !isLiteral($0) } + ["--"] + literals
    }

    /// Whether the arguments request results and errors in JSON. The words after `--exec` belong to a program. In
    /// `larder render`, `--json` means that the output file contains the configuration as JSON.
    static func requestsJSON(_ arguments: [String]) -> Bool {
        arguments.first != "render" && arguments.prefix { $0 != "--" && $0 != "--exec" }.contains("--json")
    }

    /// The unknown verb in the arguments, as one or two words; nil if the arguments have no verb, or the verb exists.
    static func unknownVerb(_ arguments: [String]) -> String? {
        guard let verb = arguments.first, !verb.hasPrefix("-"), verb != "help" else { return nil }
        let words = verbWords(arguments[...])
        return command(of: words) == nil ? words.joined(separator: " ") : nil
    }

    /// The verb that an unknown one of ``unknownVerb(_:)`` is probably meant to be; nil if none is similar.
    static func similarVerb(to unknown: String) -> String? {
        var words = unknown.split(separator: " ").map(String.init)
        guard let last = words.popLast(), let group = command(of: words) else { return nil }
        let known = group.configuration.subcommands.map { $0._commandName }
        return NearestName.suggestion(for: last, among: known).map { (words + [$0]).joined(separator: " ") }
    }

    /// The command of a verb: the root command for no words, and two words for `image get`. Nil if it does not exist.
    static func command(of verb: [String]) -> (any ParsableCommand.Type)? {
        verb.reduce(Larder.self) { command, word in
            command?.configuration.subcommands.first { $0._commandName == word }
        }
    }

    /// The words of the verb at the beginning of the arguments: two for `image get`.
    private static func verbWords(_ arguments: ArraySlice<String>) -> [String] {
        let words = arguments.prefix(2).prefix { !$0.hasPrefix("-") }
        let hasVerbs = command(of: Array(words.prefix(1)))?.configuration.subcommands.isEmpty == false
        return Array(words.prefix(hasVerbs ? 2 : 1))
    }

    /// The command that shows the help for the verb in the arguments: `larder get --help`.
    static func helpCommand(_ arguments: [String]) -> String {
        var words = verbWords(arguments[...])
        while command(of: words) == nil { words.removeLast() }
        return (["larder"] + words + ["--help"]).joined(separator: " ")
    }
}

/// The message for a command line that cannot be parsed.
enum UsageMessage {
    /// Verbs whose arguments contain values of the configuration, which may be secret.
    private static let verbsWithValues = ["set", "unset", "replace", "wait", "call"]

    /// The text of a message instead of an argument.
    private static let mask = "…"

    /// The text of a message instead of an argument such as `PATH=VALUE`.
    private static let maskedAssignment = "…=…"

    /// Returns the message for an error of the parser.
    ///
    /// The parser quotes arguments. For verbs with values, the message is therefore that for a command line in which
    /// only the verb, its options and their values are as in `arguments`.
    static func text(for error: any Error, _ arguments: [String]) async -> String {
        guard let verb = arguments.first, verbsWithValues.contains(verb) else { return Larder.message(for: error) }
        let options = VerbOptions(of: [verb])
        let masked = masked(arguments, options)
        var message = "the command line is invalid"
        do { _ = try await Larder.asyncParseAsRoot(masked) } catch { message = Larder.message(for: error) }
        guard masked.contains("--\(mask)") else { return message }
        // The parser suggests the option that is most similar to the mask, not to the argument.
        let problem = message.split(separator: ". Did you mean ", maxSplits: 1).first.map(String.init) ?? message
        let similar = options.similar(to: zip(arguments, masked).first { $1.hasPrefix("--\(mask)") }?.0 ?? "")
        let suggestion = similar.map { "did you mean \($0)? Otherwise " } ?? ""
        return "\(problem); \(suggestion)write -- before a value that begins with a dash"
    }

    private static func masked(_ arguments: [String], _ options: VerbOptions) -> [String] {
        var masked = Array(arguments.prefix(1))
        var rest = arguments.dropFirst()
        while let word = rest.popFirst() {
            let name = String(word.prefix { $0 != "=" })
            if word == "--" {
                return masked + [word] + rest.map { _ in mask }
            } else if options.valued.contains(name) {
                masked.append(word)
                if name == word { masked += rest.popFirst().map { [$0] } ?? [] }
            } else if options.flags.contains(name) {
                masked.append(name == word ? name : "\(name)=\(mask)")
            } else {
                let plain = word.contains("=") ? maskedAssignment : mask
                masked.append(word.isEmpty ? "" : word.hasPrefix("-") ? "--\(mask)" : plain)
            }
        }
        return masked
    }
}

/// The options of a verb, as its help lists them.
struct VerbOptions {
    /// The names of the options that take a value, with their dashes.
    private(set) var valued: Set<String> = []
    /// The names of the options that take no value.
    private(set) var flags: Set<String> = []

    /// - Parameter verb: the words of the verb; two for a verb such as `image get`.
    init(of verb: [String]) {
        guard let command = Arguments.command(of: verb) else { return }
        // A line of an option is `  -n, --namespace <name>  The namespace.`, with two spaces before the description.
        let lines = Larder.helpMessage(for: command, columns: 1000).split(separator: "\n")
        for line in lines.drop(while: { $0 != "OPTIONS:" }) where line.hasPrefix("  -") {
            let synopsis = line.dropFirst(2).prefix(
                upTo: line.dropFirst(2).firstRange(of: "  ")?.lowerBound ?? line.endIndex)
            let names = synopsis.split(whereSeparator: { $0 == " " || $0 == "," }).filter { $0.hasPrefix("-") }
            if synopsis.contains("<") {
                valued.formUnion(names.map(String.init))
            } else {
                flags.formUnion(names.map(String.init))
            }
        }
    }

    /// The long option that an unknown one is probably meant to be, such as `--ttl` for `--tttl=5m`; nil if none is similar.
    func similar(to word: String) -> String? {
        let name = String(word.prefix { $0 != "=" })
        guard name.hasPrefix("--") else { return nil }
        let long = valued.union(flags).filter { $0.hasPrefix("--") }.sorted()
        return NearestName.suggestion(for: name, among: long)
    }

    /// Whether a word has the form of an option, such as `-n`, `--ttl` or `--ttl=10m`.
    static func isName(_ word: String) -> Bool {
        let name = word.prefix { $0 != "=" }
        let letters = name.drop { $0 == "-" }
        return (1...2).contains(name.utf8.count - letters.utf8.count) && letters.first?.isLetter == true
            && letters.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }
    }
}
