import LarderClientCore

/// Renders a value as text: as JSON, as environment variables, or with a template.
struct Rendering: Sendable {
    enum Form: Sendable {
        case json
        case environment(EnvironmentMapping)
        /// As text made with a template, from the file at this path. The file is read for each rendering.
        case template(String)
    }

    let form: Form
    /// The path of the value in the configuration.
    let path: JSONPath

    func text(of value: JSONValue) throws(Failure) -> String {
        switch form {
        case .json: return value.prettyText + "\n"
        case .environment(let mapping): return try mapping.variables(of: value, at: path).fileText
        case .template(let name):
            let bytes = try Input.text(of: name)
            guard let text = String(validating: bytes, as: UTF8.self) else {
                throw Failure(.usage, "\(name) is not UTF-8; save it as UTF-8")
            }
            return try ConfigTemplate(text, name: name).render(value)
        }
    }
}

/// A rendering and its output file.
struct RenderedConfiguration: Sendable {
    let rendering: Rendering
    let output: RenderedOutput
    let namespace: String
    let client: LarderClient

    /// The minimum time between two updates of the output that run the check or the command after a change.
    static let pause = Duration.seconds(1)

    /// The timeout for the request that checks for a newer value.
    private static let requestTimeout = Duration.seconds(2)

    /// Updates the output, and runs the check and the command after a change.
    /// - Parameter isExecDue: whether the command after a change failed last time, so that it runs even if nothing
    ///   changes now.
    /// - Returns: whether the content changed.
    /// - Throws: ``Failure`` or ``RenderedOutput/ExecFailure``.
    func write(_ value: JSONValue, isExecDue: Bool = false) async throws -> Bool {
        let isReplaced = try await output.write(rendering.text(of: value)) {
            // If the agent is unreachable or the newest value cannot be rendered, this closure returns nil, and `value`
            // is written.
            let parameters = ConfigGet.Parameters(path: rendering.path, namespace: namespace)
            let newest = try? await client.call(ConfigGet.self, parameters, timeout: Self.requestTimeout).value
            return newest.flatMap { try? rendering.text(of: $0) }
        }
        if isExecDue, !isReplaced { try await output.repeatExec() }
        return isReplaced
    }

    /// Writes a snapshot repeatedly, with increasing delays, until the command after the change succeeds.
    /// - Returns: a task that returns true when the command has succeeded, and false when the task is cancelled or
    ///   another error occurs.
    func retry(_ snapshot: LarderSnapshot, _ value: JSONValue) -> Task<Bool, Never> {
        Task {
            let backoff = Backoff(base: Self.pause, cap: .seconds(60))
            var attempt = 0
            while true {
                // The sleep throws only if the task is cancelled, which the next line checks.
                try? await Task.sleep(for: Self.pause + backoff.delay(beforeAttempt: attempt))
                if Task.isCancelled { return false }
                attempt += 1
                do {
                    _ = try await write(value, isExecDue: true)
                    break
                } catch is RenderedOutput.ExecFailure {
                    continue
                } catch {
                    Output.note("\((error as? Failure)?.message ?? "\(error)")")
                    return false
                }
            }
            Output.note("the command that runs when \(output.path) changes has succeeded")
            await client.acknowledge(snapshot, nil)
            return true
        }
    }
}
