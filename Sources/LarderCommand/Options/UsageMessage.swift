import ArgumentParser

/// The message for a command line that cannot be parsed.
enum UsageMessage {
    /// Verbs whose arguments contain values of the configuration, which may be secret.
    private static let verbsWithValues = ["set", "unset", "wait", "call"]

    /// What a message shows instead of an argument.
    private static let mask = "…"

    /// Returns the message for an error of the parser.
    ///
    /// The parser quotes arguments. For verbs with values, the message is therefore that for a command line in which
    /// only the verb, its options and their values are as in `arguments`.
    static func text(for error: any Error, _ arguments: [String]) async -> String {
        guard let verb = arguments.first, verbsWithValues.contains(verb) else { return Larder.message(for: error) }
        let masked = masked(arguments, VerbOptions(of: [verb]))
        var message = "the command line is invalid"
        do { _ = try await Larder.asyncParseAsRoot(masked) } catch { message = Larder.message(for: error) }
        guard masked.contains("--\(mask)") else { return message }
        // The parser suggests the option that is most similar to the mask, not to the argument.
        let problem = message.split(separator: ". Did you mean ", maxSplits: 1).first.map(String.init) ?? message
        return "\(problem); write -- before a value that begins with a dash"
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
                masked.append(word.isEmpty ? "" : word.hasPrefix("-") ? "--\(mask)" : mask)
            }
        }
        return masked
    }
}
