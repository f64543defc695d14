/// A file that follows the configuration: what is new is checked before it takes the old one's place, and a command runs
/// after that.
struct RenderedOutput: Sendable {
    /// Where it is, as the user wrote it.
    let path: String
    let mode: FileMode?
    let owner: FileOwner?
    /// Accepts a new file by its success.
    let check: ShellCommand?
    /// What runs after a change.
    let exec: ShellCommand?

    /// How often one call renders anew because the configuration changed meanwhile. Without an end to it one that
    /// changes all the time would never be written.
    private static let mostRounds = 5

    private struct Outdated: Error {
        let newest: String
    }

    /// Brings the file up to date.
    ///
    /// Others may write the same file, and newer snapshots than this one's: so the configuration is read again when the
    /// new file is accepted, and once more when it is in place. Whoever is the last to replace the file thus finds out if
    /// it was late.
    /// - Parameters:
    ///   - text: what it should hold.
    ///   - newest: what it should hold by now; nil where that cannot be told.
    /// - Returns: whether it had another content before.
    /// - Throws: ``Failure`` where it stays as it was.
    func write(_ text: String, newest: () async -> String?) async throws -> Bool {
        let file = RenderedFile(path: path, mode: mode, owner: owner)
        var text = text
        var isReplaced = false
        for round in 1...Self.mostRounds {
            do {
                switch try file.difference(to: text) {
                case .none: return isReplaced
                case .attributes: try await file.replace(with: text) { _ in }
                case .content:
                    try await file.replace(with: text) { temporary in
                        try await accept(temporary)
                        guard round < Self.mostRounds, let newest = await newest(), newest != text else { return }
                        throw Outdated(newest: newest)
                    }
                    isReplaced = true
                }
            } catch let outdated as Outdated {
                text = outdated.newest
                continue
            } catch let failure as Failure where isReplaced {
                Output.note(failure.message)
                return true
            }
            guard let newest = await newest(), newest != text else { break }
            text = newest
        }
        return isReplaced
    }

    /// Runs the command that follows a change.
    /// - Throws: ``Failure`` where it fails.
    func runExec() async throws(Failure) {
        guard let end = try await exec?.run(on: RenderedFile(path: path, mode: nil, owner: nil).path) else { return }
        guard end == .exited(0) else {
            throw Failure(.failure, "\(path) is written, but the command after it ended with \(end.text)")
        }
    }

    private func accept(_ temporary: String) async throws(Failure) {
        guard let end = try await check?.run(on: temporary) else { return }
        guard end == .exited(0) else {
            throw Failure(.upstream, "the check ended with \(end.text); \(path) stays as it was")
        }
    }
}
