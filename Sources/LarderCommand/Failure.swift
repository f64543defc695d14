import Glibc
import LarderClient

/// A failure that the program itself finds, with what to do next.
struct Failure: Error, Equatable {
    let status: ExitStatus
    /// What happened and what to do next, in one line.
    let message: String

    init(_ status: ExitStatus, _ message: String) {
        self.status = status
        self.message = message
    }

    /// What went wrong in a call, and what to do about it where the library or the agent does not say so already.
    init(_ error: LarderClientError) {
        status = ExitStatus(error)
        message = [error.description, Self.advice(error)].compactMap(\.self).joined(separator: "; ")
    }

    /// Ends the program with one line that says why.
    func endThisProcess() -> Never {
        Output.note(message)
        exit(status.rawValue)
    }

    private static func advice(_ error: LarderClientError) -> String? {
        switch error.code {
        case .timeout: "allow more time with --timeout, or see what it does with: larder status"
        case .remote where error.remoteError?.code == .forbiddenAddress:
            "the setting is images.allowNetworks"
        case .disconnected: "it may have restarted: try again"
        case .remote where error.remoteError?.code == .lineTooLong:
            "let the agent read the document itself, from a file or over HTTP, or raise limits.lineBytes in its settings"
        default: nil
        }
    }
}
