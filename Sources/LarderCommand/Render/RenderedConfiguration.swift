import LarderClientCore
import LarderProtocol
import LarderTemplate

/// A value of the configuration that is rendered as text, as JSON, as environment variables, or with a template, and
/// its output file.
struct RenderedConfiguration: Sendable {
    enum Form: Sendable {
        case json
        case environment(EnvironmentMapping)
        /// As text made with a template, from the file at this path. The file is read for each rendering.
        case template(String)
    }

    let form: Form
    /// The path of the value in the configuration.
    let path: JSONPath
    let output: RenderedOutput
    let namespace: String
    let client: LarderClient

    /// The minimum time between two updates of the output that run the check or the command after a change.
    static let pause = Duration.seconds(1)

    /// The timeout for the request that checks for a newer value.
    private static let requestTimeout = Duration.seconds(2)

    /// - Throws: ``Failure`` if the value or the template is unsuitable; ``OutputFailure`` if the template cannot be read.
    func text(of value: JSONValue) throws -> String {
        switch form {
        case .json: return value.prettyText + "\n"
        case .environment(let mapping): return try mapping.variables(of: value, at: path).fileText
        case .template(let name):
            let bytes: [UInt8]
            do throws(Failure) {
                bytes = try Input.text(of: name)
            } catch {
                throw OutputFailure(failure: error, isExecDue: false)
            }
            guard let text = String(validating: bytes, as: UTF8.self) else {
                throw Failure(.usage, "\(name) is not UTF-8; save it as UTF-8")
            }
            return try ConfigTemplate.render(text, name: name, value)
        }
    }

    /// Updates the output, and runs the check and the command after a change. Prints the result if the output is `-`.
    /// - Parameter isExecDue: whether the command after a change failed last time, so that it runs even if nothing
    ///   changes now.
    /// - Returns: whether the content of a file changed.
    /// - Throws: ``Failure`` if the value cannot be rendered; ``OutputFailure`` for any other failure.
    func write(_ value: JSONValue, isExecDue: Bool = false) async throws -> Bool {
        let text = try self.text(of: value)
        if output.path == "-" {
            try Output.text(text)
            return false
        }
        do {
            let isReplaced = try await output.write(text) {
                // If the agent is unreachable or the newest value cannot be rendered, this closure returns nil, and
                // `value` is written.
                let parameters = ConfigGet.Parameters(path: path, namespace: namespace)
                let newest = try? await client.call(ConfigGet.self, parameters, timeout: Self.requestTimeout).value
                return newest.flatMap { try? self.text(of: $0) }
            }
            if isExecDue, !isReplaced { try await output.repeatExec() }
            return isReplaced
        } catch let failure as Failure {
            throw OutputFailure(failure: failure, isExecDue: isExecDue)
        }
    }

    /// Writes a snapshot repeatedly, with increasing delays, until it succeeds or cannot be rendered. Reports each new
    /// failure on standard error and to the agent.
    /// - Parameter last: the failure that has been reported.
    /// - Returns: a task that returns whether the command after a change is still due. Cancel the task if there is a
    ///   newer snapshot.
    func retry(_ snapshot: LarderSnapshot, _ value: JSONValue, after last: OutputFailure) -> Task<Bool, Never> {
        Task {
            let backoff = LarderBackoff(base: Self.pause, cap: .seconds(60))
            var (last, attempt) = (last, 0)
            while true {
                // The sleep throws only if the task is cancelled, which the next line checks.
                try? await Task.sleep(for: Self.pause + backoff.delay(beforeAttempt: attempt))
                if Task.isCancelled { return last.isExecDue }
                attempt += 1
                do {
                    _ = try await write(value, isExecDue: last.isExecDue)
                    Output.note(
                        last.isExecDue
                            ? "the command that runs when \(output.path) changes has succeeded"
                            : "\(output.path) has been written")
                    await client.acknowledge(snapshot, nil)
                    return false
                } catch let error as OutputFailure {
                    if error.failure != last.failure { await report(error.failure, snapshot) }
                    last = error
                } catch {
                    let failure = error as? Failure ?? Failure(.failure, "\(error)")
                    await report(failure, snapshot)
                    return last.isExecDue
                }
            }
        }
    }

    private func report(_ failure: Failure, _ snapshot: LarderSnapshot) async {
        Output.note(failure.message)
        await client.acknowledge(snapshot, failure)
    }
}

/// A failure that may not occur again with the same value, such as a full disk or a failed check.
struct OutputFailure: Error {
    let failure: Failure
    /// Whether the command after a change must run at the next attempt, even if that does not change the file.
    let isExecDue: Bool
}

enum ConfigTemplate {
    /// Renders a configuration with a template.
    /// - Parameter name: the name of the template for errors
    /// - Throws: ``Failure`` with the line and column of the error in the template, or with the names that have no value.
    static func render(_ text: String, name: String, _ value: JSONValue) throws(Failure) -> String {
        do throws(TemplateError) {
            return try Template(text).render(value)
        } catch {
            throw failure(error, name)
        }
    }

    /// The error of a template as a failure, with the name of the template and advice.
    private static func failure(_ error: TemplateError, _ name: String) -> Failure {
        let text = error.place.map { "\(name):\($0): \(error.text)" } ?? "\(name): \(error.text)"
        return switch error.code {
        case .syntax: Failure(.usage, text)
        case .function: Failure(.usage, "\(text); larder render --help lists the functions")
        case .missing:
            Failure(
                .notFound,
                "\(text); set the value, correct the template, or mark an optional name with a question mark, as in "
                    + "{{name?}}")
        }
    }
}
