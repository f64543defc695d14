import LarderClientCore
import LarderJSON5
import LarderProtocol

/// The file of changes that `larder apply` reads.
enum ChangeFile {
    /// Parses a file of lines `PATH=VALUE` and `unset PATH`, a JSON5 object of paths and their values, or a JSON5 array
    /// of changes as in `config.apply`. The whole file is parsed before the first change is made, so a mistake in it
    /// changes nothing.
    /// - Parameter name: the name of the file, for errors
    static func parse(_ bytes: [UInt8], name: String) throws(Failure) -> [ConfigApply.Change] {
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw Failure(.usage, "\(name) is not UTF-8; save it as UTF-8")
        }
        let start = text.drop { $0.isWhitespace }
        let changes =
            if ["{", "[", "//", "/*"].contains(where: { start.hasPrefix($0) }) {
                try document(bytes, name)
            } else {
                try lines(text, name)
            }
        if changes.isEmpty { throw Failure(.usage, "\(name) has no changes; write lines such as search.limit=25") }
        return changes
    }

    private static func document(_ bytes: [UInt8], _ name: String) throws(Failure) -> [ConfigApply.Change] {
        let document = try LenientJSON.parse(bytes, name: name, allowsDuplicates: false)
        guard document.kind == .object else { return try list(document, name) }
        var changes: [ConfigApply.Change] = []
        for (path, value) in document.members {
            changes.append(ConfigApply.Change(.set(value), at: try self.path(path, name)))
        }
        return changes
    }

    private static func list(_ document: JSONValue, _ name: String) throws(Failure) -> [ConfigApply.Change] {
        guard document.kind == .array else {
            throw Failure(.usage, "\(name) contains \(document.kind.article); write an array of changes or an object")
        }
        if document.count == 0 { return [] }
        do throws(WireError) {
            return try ConfigApply.Change.list(document, maxCount: .max)
        } catch {
            throw Failure(.usage, "\(name): \(error.detail)")
        }
    }

    private static func lines(_ text: String, _ name: String) throws(Failure) -> [ConfigApply.Change] {
        var changes: [ConfigApply.Change] = []
        let lines = text.split(omittingEmptySubsequences: false) { $0.isNewline }
        for (index, line) in lines.enumerated() {
            let place = "\(name):\(index + 1)"
            let line = line.drop { $0.isWhitespace }
            if line.isEmpty || line.first == "#" { continue }
            if line.hasPrefix("unset "), !line.contains("=") {
                let path = line.dropFirst("unset ".count).filter { !$0.isWhitespace }
                changes.append(ConfigApply.Change(.unset, at: try self.path(String(path), place)))
                continue
            }
            guard let equals = line.firstIndex(of: "=") else {
                throw Failure(.usage, "\(place): this line is neither PATH=VALUE nor unset PATH")
            }
            let (name, text) = (line[..<equals], line[line.index(after: equals)...])
            // Without this error, the blanks would silently be parts of the name and the value.
            if name.last?.isWhitespace == true || text.first?.isWhitespace == true {
                throw Failure(
                    .usage,
                    "\(place): there is a blank beside \"=\"; remove it; if it is part of the name or the value, write a "
                        + "JSON object of paths and values instead of lines")
            }
            let value: JSONValue
            do throws(Failure) {
                value = try ValueArgument.parse(String(text), isString: false)
            } catch {
                throw Failure(.usage, "\(place): \(error.message)")
            }
            changes.append(ConfigApply.Change(.set(value), at: try path(String(name), place)))
        }
        return changes
    }

    /// Parses a path. The error does not quote it, because the line may be the rest of a value with line ends.
    private static func path(_ text: String, _ place: String) throws(Failure) -> JSONPath {
        if text.isEmpty { throw Failure(.usage, "\(place): the path is empty; write a path such as search.limit") }
        do {
            return try JSONPath(parsing: text)
        } catch {
            throw Failure(.usage, "\(place): the path is invalid: \(error.reason)")
        }
    }
}

/// JSON that people write: JSON or JSON5.
enum LenientJSON {
    /// Parses a text. A number that is valid JSON keeps its text, such as `1.50`. Errors do not quote the text, which
    /// may contain secrets.
    /// - Parameter allowsDuplicates: whether an object of JSON may have several members with the same name, of which
    ///   the last one counts. An object of JSON5 may not.
    static func parse(
        _ bytes: [UInt8], name: String, allowsDuplicates: Bool = true
    ) throws(Failure) -> JSONValue {
        let value = try? JSONValue(parsing: bytes)
        if let value, allowsDuplicates { return value }
        do throws(JSON5Error) {
            let lenient = try JSON5Parser.parse(try JSON5Parser.scalars(of: bytes))
            if let value = value ?? lenient.json { return value }
        } catch {
            // JSON may be nested deeper than JSON5.
            if let value, error.code != .duplicateMember { return value }
            let place = error.place.map { ":\($0.line):\($0.column)" } ?? ""
            let reason = error.quotation.map { error.reason.replacing($0, with: "\"…\"") } ?? error.reason
            throw Failure(.usage, "\(name)\(place): \(reason)")
        }
        throw Failure(.usage, "\(name) contains Infinity or NaN, which a configuration cannot have")
    }
}

/// Applies more changes than one `config.apply` takes, in order, one chunk at a time, and displays the progress on a
/// terminal.
actor ChunkedApply {
    private let changes: [ConfigApply.Change]
    private let namespace: String
    private let reason: String?
    private let screen: ProgressDisplay.Screen
    private var applied = 0

    /// Creates a run.
    /// - Parameter changes: the changes, at least one and without conditions.
    init(_ changes: [ConfigApply.Change], namespace: String, reason: String?, screen: ProgressDisplay.Screen) {
        self.changes = changes
        self.namespace = namespace
        self.reason = reason
        self.screen = screen
    }

    /// The number of changes that were made, for people.
    var state: String { "\(applied) of \(Human.count(changes.count, "change", "changes")) applied" }

    /// Applies the changes.
    /// - Returns: the result of the last chunk; `changed` is true if any chunk changed the configuration.
    /// - Throws: `cancelled` between two chunks once the task is cancelled.
    func apply(over client: LarderClient) async throws(LarderClientError) -> WireConfigChange {
        defer { if screen.columns() != nil, applied > 0 { screen.write("\n") } }
        var result: WireConfigChange?
        for chunk in ChangeChunk.chunks(of: changes.lazy.map { [$0] }) {
            if Task.isCancelled { throw LarderClientError(.cancelled, "the changes were stopped") }
            var change = try await apply(chunk, over: client)
            change.changed = change.changed || result?.changed == true
            result = change
            applied += chunk.changes.count
            if let columns = screen.columns() { screen.redraw(state, columns: columns) }
        }
        guard let result else { preconditionFailure("a run has at least one change") }
        return result
    }

    /// Applies a chunk in a separate task, so that a cancellation does not leave its result unknown.
    private func apply(
        _ chunk: ChangeChunk, over client: LarderClient
    ) async throws(LarderClientError) -> WireConfigChange {
        let parameters = ConfigApply.Parameters(chunk.changes, namespace: namespace, reason: reason)
        let applying = Task { () async -> Result<WireConfigChange, LarderClientError> in
            do throws(LarderClientError) {
                return .success(try await client.call(ConfigApply.self, parameters))
            } catch {
                return .failure(error)
            }
        }
        return try await applying.value.get()
    }
}
