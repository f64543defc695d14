import ArgumentParser
import Glibc
import LarderClientCore
import LarderEncoding
import LarderJSON
import LarderPlatform
import LarderProtocol
import LarderSchema

extension CompletionKind {
    /// Completes a path with the member names in the schema and in the current configuration.
    static var configurationPath: CompletionKind {
        .custom { words, index, prefix in await AgentCompletion.paths(CompletionLine(words, index, prefix)) }
    }

    /// Completes the name of a namespace that the user may read.
    static var namespace: CompletionKind {
        .custom { words, index, prefix in await AgentCompletion.namespaces(CompletionLine(words, index, prefix)) }
    }

    /// Completes a revision with those that `larder history` lists.
    static var revision: CompletionKind {
        .custom { words, index, prefix in await AgentCompletion.revisions(CompletionLine(words, index, prefix)) }
    }
}

/// Requests the candidates for shell completion from the agent. There are no candidates if a request fails.
enum AgentCompletion {
    private static let timeout = Duration.seconds(1)

    static func namespaces(_ line: CompletionLine) async -> [String] {
        let info = await request(await line.options?.connection.socket) { client in
            try await client.call(AgentInfo.self, NoParameters())
        }
        return info?.namespaces.filter(\.isCandidate) ?? []
    }

    static func revisions(_ line: CompletionLine) async -> [String] {
        guard let options = await line.options else { return [] }
        let history = await request(options.connection.socket) { client in
            try await client.call(
                ConfigHistory.self, ConfigHistory.Parameters(namespace: options.namespace.namespace))
        }
        return history?.generations.map { "\($0.revision)" } ?? []
    }

    static func paths(_ line: CompletionLine) async -> [String] {
        guard let options = await line.options, !options.isAll, let path = IncompletePath(line.typed) else { return [] }
        let (namespace, parent) = (options.namespace.namespace, path.parent)
        let found = await request(options.connection.socket) { client in
            async let schema = schemaInForce(namespace, client)
            async let value = currentValue(parent, namespace, client)
            return await path.candidates(schema, value)
        }
        return found ?? []
    }

    /// Returns the arguments for `larder set` that stand for the given values. Values without such an argument are left
    /// out.
    /// - Parameters:
    ///   - typed: the beginning of the argument
    ///   - isString: whether the command has the option `--string`
    static func candidates(_ values: [JSONValue], typed: String, isString: Bool) -> [String] {
        values.compactMap { value in
            let text = value.string ?? value.compactText
            // In an override, null hides a value. It does not set the value null.
            guard !value.isNull, text.hasPrefix(typed), text.isCandidate,
                let parsed = try? ValueArgument.parse(text, isString: isString), parsed == value
            else { return nil }
            return text
        }
    }

    static func request<Answer>(
        _ socket: String?, _ body: (LarderClient) async throws -> Answer
    ) async -> Answer? {
        var configuration = LarderClient.Configuration()
        configuration.timeout = timeout
        return try? await LarderClient.withConnection(socket: socket, configuration: configuration, body)
    }

    /// Returns the schema in force; nil without a schema, or if this process cannot compile it.
    static func schemaInForce(_ namespace: String, _ client: LarderClient) async -> JSONSchema? {
        let parameters = ConfigSchema.Parameters(namespace: namespace)
        return (try? await client.call(ConfigSchema.self, parameters)).flatMap { try? DocumentValidation($0).schema }
    }

    private static func currentValue(
        _ path: JSONPath, _ namespace: String, _ client: LarderClient
    ) async -> JSONValue? {
        let parameters = ConfigGet.Parameters(path: path, namespace: namespace)
        return (try? await client.call(ConfigGet.self, parameters))?.value
    }
}

/// A path whose last segment is incomplete.
struct IncompletePath {
    /// The path as typed.
    private let typed: String
    /// The path without its last segment.
    let parent: JSONPath

    /// Fails if the path without its last segment is invalid.
    init?(_ typed: String) {
        let separator: Character = typed.hasPrefix("/") ? "/" : "."
        let end = typed.lastIndex(of: separator) ?? typed.startIndex
        guard let parent = try? JSONPath(parsing: String(typed[..<end])) else { return nil }
        self.typed = typed
        self.parent = parent
    }

    /// Returns the paths that complete this one by a member of the value at ``parent``. If there is only one, also
    /// returns the paths of its members. Otherwise the shell would add a space after the path, and the user would have
    /// to delete it to continue.
    /// - Parameters:
    ///   - schema: the schema of the configuration
    ///   - value: the current value at ``parent``
    func candidates(_ schema: JSONSchema?, _ value: JSONValue?) -> [String] {
        let found = members(of: parent, schema, value)
        guard found.count == 1, let only = found.first else { return found.map(\.text) }
        let path = JSONPath(parent.segments + [only.name])
        return [only.text] + members(of: path, schema, value?[only.name]).map(\.text)
    }

    /// A member, and its path as a candidate.
    private struct Member {
        let name: String
        let text: String
    }

    /// Returns the members of a value whose paths begin with ``typed``: first those in the schema, then other ones.
    private func members(of path: JSONPath, _ schema: JSONSchema?, _ value: JSONValue?) -> [Member] {
        var names = schema?.annotations(at: path)?.memberNames ?? []
        if let value, value.kind == .object { names += value.members.map { $0.name } }
        let segments = path.segments
        var members: [Member] = []
        var known: Set<ExactText> = []
        for name in names {
            let member = JSONPath(segments + [name])
            let text = typed.hasPrefix("/") ? member.pointer : member.description
            guard text.hasPrefix(typed), text.isCandidate, known.insert(ExactText(text)).inserted else { continue }
            members.append(Member(name: name, text: text))
        }
        return members
    }
}

extension String {
    /// Whether all shells insert the text unchanged, and as one word that is not an option.
    ///
    /// The completion script for bash expands candidates. A name such as `$(reboot)` would therefore run a command. In
    /// the script for zsh, a colon separates a candidate from its description.
    var isCandidate: Bool {
        shellWord == self && !hasPrefix("-") && !contains(":")
    }
}

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

extension CompletionKind {
    /// Completes a program after `--` or `--exec`, and file names as its arguments.
    static var program: CompletionKind {
        .custom { words, index, prefix in ProgramCompletion.candidates(CompletionLine(words, index, prefix)) }
    }

    /// Completes the name of a user.
    static var user: CompletionKind { .shellCommand("getent passwd | cut -d: -f1") }
}

/// The candidates for the command of `larder exec` and of `larder image get --exec`.
enum ProgramCompletion {
    static func candidates(_ line: CompletionLine) -> [String] {
        guard var start = line.words.firstIndex(where: { $0 == "--" || $0 == "--exec" }) else { return [] }
        if line.words[start] == "--exec", line.words.dropFirst(start + 1).first == "--" { start += 1 }
        let isProgram = start == line.words.endIndex - 1
        return isProgram && !line.typed.contains("/") ? programs(line.typed) : files(line.typed)
    }

    /// The programs in the directories of `PATH` whose names begin with a text.
    private static func programs(_ typed: String) -> [String] {
        let path = environmentVariable("PATH") ?? ""
        var found: Set<String> = []
        for directory in path.split(separator: ":") {
            for name in names(in: String(directory), typed) where access("\(directory)/\(name)", X_OK) == 0 {
                if !isDirectory("\(directory)/\(name)") { found.insert(name) }
            }
        }
        return found.sorted()
    }

    /// The files whose paths begin with a text. Directories end with a slash.
    private static func files(_ typed: String) -> [String] {
        let directory = typed.lastIndex(of: "/").map { String(typed[...$0]) } ?? ""
        return names(in: directory.isEmpty ? "." : directory, String(typed.dropFirst(directory.count))).map { name in
            directory + name + (isDirectory(directory + name) ? "/" : "")
        }
    }

    /// The names in a directory that begin with a text, in order. Hidden names are left out unless the text begins with a
    /// dot.
    private static func names(in directory: String, _ typed: String) -> [String] {
        let descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0, let names = try? DirectoryListing.names(closing: descriptor) else { return [] }
        return names.compactMap { String(validating: $0, as: UTF8.self) }.filter { name in
            name.hasPrefix(typed) && (typed.hasPrefix(".") || !name.hasPrefix(".")) && name.isCandidate
        }.sorted()
    }

    private static func isDirectory(_ path: String) -> Bool {
        var status = stat()
        return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFDIR
    }
}
