import Glibc

/// An output file that is kept up to date with the configuration. A new version of the file is checked and replaces the
/// old one, and then a command runs (`--exec`).
struct RenderedOutput: Sendable {
    /// The path as the user wrote it.
    let path: String
    let mode: FileMode?
    let owner: FileOwner?
    /// The command that checks a new file, which is accepted if the command succeeds; nil for no check.
    let check: ShellCommand?
    /// Whether the check runs after the new file has replaced the old one. This is for checks that can only read a
    /// program's complete configuration, in its usual place.
    let checksInPlace: Bool
    /// The command that runs after a change; nil for none.
    let exec: ShellCommand?

    /// The maximum number of attempts in one call of `write`. An attempt is repeated if the configuration has changed
    /// during the attempt. Without a limit, a configuration that changes all the time would never be written.
    private static let maxRounds = 5

    private struct Outdated: Error {
        let newest: String
    }

    /// Updates the file.
    ///
    /// Other processes may write the same file with newer snapshots. Therefore the configuration is read again when the
    /// check has accepted the new file, and once more when the new file is in place. The last process that replaces the
    /// file thus notices if its own snapshot is outdated.
    /// - Parameters:
    ///   - text: the desired content.
    ///   - newest: returns the content for the newest snapshot; nil if it cannot be determined.
    /// - Returns: whether the content changed.
    /// - Throws: ``OutputFailure`` if the command after a change failed, otherwise ``Failure``. The file is then
    ///   unchanged, unless the previous file could not be restored.
    func write(_ text: String, newest: () async -> String?) async throws -> Bool {
        let file = file
        var unconfirmed = file.recover()
        var text = text
        var isReplaced = false
        for round in 1...Self.maxRounds {
            do {
                switch try file.difference(to: text) {
                case .none:
                    if let marker = unconfirmed, try await confirmInPlace() {
                        marker.remove()
                        return true
                    }
                    return isReplaced
                case .attributes:
                    try await file.replace(with: text)
                    if let marker = unconfirmed.take(), try await confirmInPlace() { marker.remove() }
                case .content:
                    try await file.replace(
                        with: text,
                        accept: { temporary in
                            if !checksInPlace { try await accept(temporary) }
                            guard round < Self.maxRounds, let newest = await newest(), newest != text else { return }
                            throw Outdated(newest: newest)
                        }, confirm: confirmation, unconfirmed: unconfirmed)
                    unconfirmed = nil
                    isReplaced = true
                }
            } catch let outdated as Outdated {
                text = outdated.newest
                continue
            } catch let rejection as RenderedFile.Rejection {
                let error = error(rejection)
                guard isReplaced, let failure = error as? Failure else { throw error }
                Output.note(failure.message)
                return true
            } catch let failure as Failure where isReplaced {
                Output.note(failure.message)
                return true
            }
            guard let newest = await newest(), newest != text else { break }
            text = newest
        }
        return isReplaced
    }

    /// Runs `exec` again, although the file has not changed.
    /// - Throws: ``OutputFailure`` if it fails.
    func repeatExec() async throws {
        do {
            try await runExec(on: file.path)
        } catch {
            throw OutputFailure(
                failure: Failure(error.status, "\(error.reason); \(path) is unchanged"), isExecDue: true)
        }
    }

    private var file: RenderedFile { RenderedFile(path: path, mode: mode, owner: owner) }

    /// Runs the commands that must succeed after a new file has been put in place: `exec` and, with `--check-in-place`,
    /// the check. Nil if there are no such commands.
    private var confirmation: (() async throws(RenderedFile.Rejection) -> Void)? {
        guard exec != nil || checksInPlace else { return nil }
        let path = file.path
        return { () throws(RenderedFile.Rejection) in
            if checksInPlace { try await accept(path) }
            try await runExec(on: path)
        }
    }

    /// Runs the check and `exec` for an output file that an earlier run put in place without confirming it.
    /// - Returns: whether there is a check or an `exec` command.
    private func confirmInPlace() async throws(RenderedFile.Rejection) -> Bool {
        guard check != nil || exec != nil else { return false }
        let path = file.path
        try await accept(path)
        try await runExec(on: path)
        return true
    }

    private func accept(_ file: String) async throws(RenderedFile.Rejection) {
        try await run(check, on: file, "the check", "--check-timeout", .upstream, isOfExec: false)
    }

    private func runExec(on file: String) async throws(RenderedFile.Rejection) {
        try await run(exec, on: file, "the command after the change", "--exec-timeout", .failure, isOfExec: true)
    }

    /// Runs a command if there is one.
    /// - Parameters:
    ///   - name: the name of the command in messages.
    ///   - option: the option with the timeout of the command.
    ///   - status: the exit status of larder if the command fails.
    private func run(
        _ command: ShellCommand?, on file: String, _ name: String, _ option: String, _ status: ExitStatus,
        isOfExec: Bool
    ) async throws(RenderedFile.Rejection) {
        guard let command else { return }
        let end: ProgramEnd?
        do throws(Failure) {
            end = try await command.run(on: file)
        } catch {
            throw RenderedFile.Rejection(status: error.status, reason: error.message, isOfExec: isOfExec)
        }
        if end == .exited(0) { return }
        let timeout = TimeSpan(command.timeout)
        let reason =
            end.map { "\(name) failed with \($0.text)" }
            ?? "\(name) did not end within \(timeout) and was ended; correct it, or increase \(option)"
        throw RenderedFile.Rejection(status: status, reason: reason, isOfExec: isOfExec)
    }

    private func error(_ rejection: RenderedFile.Rejection) -> any Error {
        let outcome =
            switch rejection.outcome {
            case .discarded: "\(path) is unchanged"
            case .restored: "the previous \(path) has been restored"
            case .removed: "\(path) has been removed, because it did not exist before"
            case .superseded: "another process has replaced \(path)"
            case .restoreFailed(let copy, let number):
                "the previous \(path) cannot be restored: \(String(cString: strerror(number))); its copy is \(copy)"
            }
        let failure = Failure(rejection.status, "\(rejection.reason); \(outcome)")
        return rejection.isOfExec ? OutputFailure(failure: failure, isExecDue: true) : failure
    }
}
