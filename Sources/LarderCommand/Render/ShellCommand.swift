import Glibc
import LarderClientCore
import LarderEncoding

/// A command for a file, run by `/bin/sh`. In the command, a word `{}` and `$LARDER_FILE` stand for the path of the
/// file.
struct ShellCommand: Sendable {
    /// The command as the user wrote it.
    let text: String
    /// The time after which the command gets SIGTERM.
    var timeout = defaultTimeout
    /// The time after SIGTERM after which the command is killed.
    var killDelay = Duration.seconds(5)

    static let defaultTimeout = Duration.seconds(30)

    /// The environment variable with the path of the file.
    static let variable = "LARDER_FILE"

    /// Whether the command refers to the file, by a word `{}` or by the variable.
    var namesFile: Bool { text.contains(Self.variable) || !placeholders.isEmpty }

    /// Runs the command until it ends, or ends it after a timeout. Its standard output goes to standard error.
    ///
    /// Without a terminal, the command leads a process group, so that a timeout ends its children, too. On a terminal it
    /// shares the group of this process, because it could not read from the terminal otherwise.
    /// - Returns: how the command ended; nil if it was ended after the timeout.
    /// - Throws: ``Failure`` if no shell can be started.
    func run(on file: String) async throws(Failure) -> ProgramEnd? {
        var variables = EnvironmentVariables()
        variables.append(Self.variable, file)
        let leadsGroup = !ProgramTerminal.exists
        let child = try Program(words: ["/bin/sh", "-c", script(for: file)], variables: variables).start(
            in: leadsGroup ? .separate : .shared, output: STDERR_FILENO)
        return await onOwnThread { Candidate.wait(for: child, leadsGroup: leadsGroup, self) }
    }

    /// The command with each placeholder replaced by the path of a file.
    func script(for file: String) -> String {
        var script = ""
        var rest = text.startIndex
        for placeholder in placeholders {
            script += text[rest..<placeholder.lowerBound] + file.shellWord
            rest = placeholder.upperBound
        }
        return script + text[rest...]
    }

    /// The words of the command that are `{}`, with or without quotes. Braces in a longer word, such as `'{}{print}'`
    /// or `--file={}`, are not placeholders.
    private var placeholders: [Range<String.Index>] {
        var found: [Range<String.Index>] = []
        var start: String.Index?
        var quote: Character?
        func endWord(at end: String.Index) {
            if let start, ["{}", "\"{}\"", "'{}'"].contains(text[start..<end]) { found.append(start..<end) }
            start = nil
        }
        var index = text.startIndex
        while index < text.endIndex {
            let character = text[index]
            if quote == nil, character.isWhitespace || ";&|()<>`".contains(character) {
                endWord(at: index)
            } else {
                if start == nil { start = index }
                if character == "\\", quote != "'" {
                    index = text.index(after: index)
                    if index == text.endIndex { break }
                } else if character == quote {
                    quote = nil
                } else if quote == nil, character == "'" || character == "\"" {
                    quote = character
                }
            }
            index = text.index(after: index)
        }
        endWord(at: text.endIndex)
        return found
    }
}
