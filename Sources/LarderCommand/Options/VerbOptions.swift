import ArgumentParser

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

    /// Whether a word has the form of an option, such as `-n`, `--ttl` or `--ttl=10m`.
    static func isName(_ word: String) -> Bool {
        let name = word.prefix { $0 != "=" }
        let letters = name.drop { $0 == "-" }
        return (1...2).contains(name.utf8.count - letters.utf8.count) && letters.first?.isLetter == true
            && letters.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }
    }
}
