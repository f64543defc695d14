import LarderClient

/// Turns a value into text: through a template or as a whole.
struct Rendering: Sendable {
    enum Form: Sendable {
        case json
        case environment(EnvironmentMapping)
        /// Through the template in a file, which is read each time.
        case template(String)
    }

    let form: Form
    /// Where in the configuration the value is.
    let path: JSONPath

    /// The text for the output.
    func text(of value: JSONValue) throws(Failure) -> String {
        switch form {
        case .json: return value.prettyText + "\n"
        case .environment(let mapping): return try mapping.variables(of: value, at: path).fileText
        case .template(let name):
            let bytes = try Input.contents(of: name)
            guard let text = String(validating: bytes, as: UTF8.self) else {
                throw Failure(.usage, "\(name) is not UTF-8; save it as UTF-8")
            }
            return try ConfigTemplate(text, name: name).render(value)
        }
    }
}

/// A rendering, and the file that it goes to.
struct RenderedConfiguration: Sendable {
    let rendering: Rendering
    let output: RenderedOutput
    let namespace: String
    let client: LarderClient

    /// The shortest time from one run of the commands to the next.
    static let pause = Duration.seconds(1)

    /// The time limit for the question whether there is a newer value.
    private static let patience = Duration.seconds(2)

    /// Brings the output up to date, and runs the commands.
    /// - Parameter isExecDue: whether the command after a change has failed before, and runs even if nothing changes now.
    /// - Returns: whether it had another content before.
    /// - Throws: ``Failure`` or ``RenderedOutput/ExecFailure``.
    func write(_ value: JSONValue, isExecDue: Bool = false) async throws -> Bool {
        let isReplaced = try await output.write(rendering.text(of: value)) {
            // If the agent is unreachable, or the newest value cannot be rendered, this value is written.
            let parameters = ConfigGet.Parameters(path: rendering.path, namespace: namespace)
            let newest = try? await client.call(ConfigGet.self, parameters, timeout: Self.patience).value
            return newest.flatMap { try? rendering.text(of: $0) }
        }
        if isExecDue, !isReplaced { try await output.repeatExec() }
        return isReplaced
    }

    /// Writes a snapshot repeatedly, with growing pauses, until the command after the change succeeds.
    /// - Returns: a task whose value is whether it succeeded. It ends when it is cancelled, and when something else fails.
    func retry(_ snapshot: ConfigSnapshot, _ value: JSONValue) -> Task<Bool, Never> {
        Task {
            let backoff = Backoff(base: Self.pause, cap: .seconds(60))
            var attempt = 0
            while true {
                // The sleep ends early only when the task is cancelled.
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
            Output.note("the command after \(output.path) has succeeded")
            await client.acknowledge(snapshot, nil)
            return true
        }
    }
}
