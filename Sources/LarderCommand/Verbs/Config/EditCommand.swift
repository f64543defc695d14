import ArgumentParser
import Glibc
import LarderClientCore
import LarderProtocol

/// `larder edit [PATH]`
struct EditCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "edit",
        abstract: "Edit a value in your editor, and apply the difference as overrides.",
        discussion: """
            Opens $VISUAL, $EDITOR or vi with the resolved value at the path. Only what you change becomes an \
            override; all of it is applied as one change. If the agent rejects it, or if the configuration was changed \
            in the meantime, the editor opens again with the reason and your changes. Save an empty text, or leave the \
            text unchanged, to give up. If standard input is not a terminal, the editor opens only once.

            EXAMPLES:
              larder edit search
              larder edit                        the whole document
              EDITOR="code --wait" larder edit search --reason "new cluster"
            """)

    @OptionGroup var path: PathArgument

    @Option(
        help: ArgumentHelp("Why, for larder history and the log; at most 1,024 characters.", valueName: "text"))
    var reason: String?

    @OptionGroup var namespace: NamespaceOption
    @OptionGroup var agent: AgentOptions

    func run() async throws {
        let path = try path.path
        let editor = try Editor()
        // Without a terminal, the editor is a program that could make the same mistake indefinitely.
        let canReopen = isatty(STDIN_FILENO) == 1
        let place = PathAdvice.Place(path: self.path.text, namespace: namespace.namespace)
        try await agent.connection.withClient(reading: place) { client in
            var base = try await current(path, client)
            var text = EditText.text(base.value, notes: notes(path, base, []))
            var lastFailure: Failure?
            while true {
                let edited = try editor.edit(text)
                if let lastFailure, edited.utf8.elementsEqual(text.utf8) { throw lastFailure }
                let value: JSONValue?
                do throws(Failure) {
                    // The editor opens again with one more note, the error.
                    value = try EditText.value(of: edited, noteLines: notes(path, base, []).count + 1)
                } catch {
                    if !canReopen { throw error }
                    lastFailure = error
                    text = EditText.replacingNotes(of: edited, by: notes(path, base, [error.message]))
                    continue
                }
                guard let value else {
                    throw Failure(.failure, "the text is empty; nothing was changed")
                }
                let edit = DocumentEdit(old: base.value, new: value, path: path)
                if edit.changes.isEmpty { return try Output.line("unchanged at revision \(base.revision)") }
                do {
                    return try await apply(edit.changes, to: base, client)
                } catch let error as LarderClientError {
                    guard let remote = error.remoteError, Self.asksAgain(remote.wire.code) else { throw error }
                    let failure = Failure(error, agent.connection.hints)
                    if !canReopen { throw failure }
                    if remote.code == .conflict {
                        lastFailure = nil
                        base = try await current(path, client)
                        let reasons = [
                            "The configuration was changed in the meantime. Below is revision \(base.revision) with your",
                            "changes. Check it, and save it to apply them.",
                        ]
                        let merged = edit.applied(to: base.value)
                        if merged == base.value {
                            return try Output.line("unchanged at revision \(base.revision)")
                        }
                        text = EditText.text(merged, notes: notes(path, base, reasons))
                    } else {
                        lastFailure = failure
                        text = EditText.replacingNotes(of: edited, by: notes(path, base, [failure.message]))
                    }
                }
            }
        }
    }

    /// Whether the editor opens again after an error with this code, because the user can correct the text.
    private static func asksAgain(_ code: WireError.Code) -> Bool {
        [.conflict, .invalidParams, .rejected, .denied, .schemaViolation].contains(code)
    }

    private func notes(_ path: JSONPath, _ base: ConfigGet.Result, _ reasons: [String]) -> [String] {
        let place = path.isRoot ? "The configuration" : "The value at \(path)"
        let about = "\(place) in namespace \(namespace.namespace), revision \(base.revision)."
        return reasons + [about, "Lines like this one are ignored. Save an empty text to change nothing."]
    }

    private func current(_ path: JSONPath, _ client: LarderClient) async throws -> ConfigGet.Result {
        let parameters = ConfigGet.Parameters(path: path, namespace: namespace.namespace)
        return try await client.call(ConfigGet.self, parameters)
    }

    private func apply(_ changes: [ConfigApply.Change], to base: ConfigGet.Result, _ client: LarderClient) async throws
    {
        let parameters = ConfigApply.Parameters(
            changes, namespace: namespace.namespace,
            ifRevision: WireRevisionCondition(base.revision, epoch: base.epoch), reason: reason)
        try await agent.printResult(of: ConfigApply.self, parameters, over: client, ChangeReport.text)
    }
}
