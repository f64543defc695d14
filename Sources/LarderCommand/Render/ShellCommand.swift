import LarderClient
import Glibc

/// A command of the user's about a file: `{}` in it stands for the file's path, as does `$LARDER_FILE`.
struct ShellCommand {
    /// What /bin/sh is to run.
    let text: String

    /// Runs it to its end. What it prints goes to standard error.
    /// - Throws: ``Failure`` where no shell can be started.
    func run(on file: String) async throws(Failure) -> ProgramEnd {
        var variables = EnvironmentVariables()
        variables.append("LARDER_FILE", file)
        let script = text.split(separator: "{}", omittingEmptySubsequences: false).joined(separator: Self.quoted(file))
        let child = try Program(words: ["/bin/sh", "-c", script], variables: variables).start(
            hasOwnGroup: false, output: STDERR_FILENO)
        return await onOwnThread { Candidate.wait(for: child) }
    }

    /// The path as one word of a shell's.
    private static func quoted(_ path: String) -> String {
        "'\(path.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''"))'"
    }
}
