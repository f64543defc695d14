import ArgumentParser

/// A command line of a shell, up to the word that is completed.
struct CompletionLine {
    /// The words between the program and the completed word, without quotes.
    let words: [String]
    /// The completed word up to the cursor, without quotes.
    let typed: String

    /// - Parameters:
    ///   - words: all words of the line as they were typed, including the program
    ///   - index: the index of the completed word
    ///   - prefix: the last word up to the cursor
    init(_ words: [String], _ index: Int, _ prefix: String) {
        let isBeforeLast = index >= 0 && index < words.count - 1
        typed = Self.unquoted(isBeforeLast ? words[index] : prefix)
        self.words = Self.joined(words.prefix(max(index, 0)).dropFirst().map { Self.unquoted($0) })
    }

    /// The options that all verbs have; nil if they are invalid. The last word may be an option whose value is being
    /// completed.
    var options: CompletionOptions? {
        get async {
            for words in [words, Array(words.dropLast())] {
                if let options = try? await CompletionOptions.asyncParse(words) { return options }
            }
            return nil
        }
    }

    /// The line as `larder set`, with any value; nil if it is another command or invalid.
    var setCommand: SetCommand? {
        get async {
            try? await Larder.asyncParseAsRoot(Arguments.normalized(words + ["0"])) as? SetCommand
        }
    }

    /// Joins `--socket`, `=` and `/path`: bash splits words at `=`.
    private static func joined(_ words: [String]) -> [String] {
        var joined: [String] = []
        var joinsNext = false
        for word in words {
            let joinsThis = word == "=" && joined.last?.hasPrefix("--") == true
            if joinsThis || joinsNext {
                joined[joined.count - 1] += word
            } else {
                joined.append(word)
            }
            joinsNext = joinsThis
        }
        return joined
    }

    /// Removes quotes and backslashes from a shell word. The last quote may be open.
    private static func unquoted(_ word: String) -> String {
        var text = ""
        var quote: Character?
        var isEscaped = false
        for character in word {
            if isEscaped {
                text.append(character)
                isEscaped = false
            } else if character == "\\", quote != "'" {
                isEscaped = true
            } else if character == quote {
                quote = nil
            } else if quote == nil, character == "'" || character == "\"" {
                quote = character
            } else {
                text.append(character)
            }
        }
        return text
    }
}

/// The options of an incomplete command line that select the agent and the namespace. It is a command, because only the
/// options of an asynchronous command can have asynchronous completions.
struct CompletionOptions: AsyncParsableCommand {
    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var connection: ConnectionOptions

    @Argument(parsing: .allUnrecognized)
    var others: [String] = []

    /// Whether the command changes the whole document, so that it has no path.
    var isAll: Bool { others.contains("--all") }
}
