import LarderClientCore
import LarderEncoding

/// Creates the commands in messages. They are complete, so that users can paste them.
struct Hints: Sendable, Equatable {
    /// The socket that the user passed; nil for the default.
    var socket: String?

    /// Adds the options `--socket` and `--namespace` to a command if they are not the default.
    /// - Parameters:
    ///   - words: the command without these options, such as `larder refresh --force`.
    ///   - namespace: the namespace of the command; nil for none.
    func command(_ words: String, namespace: String? = nil) -> String {
        var command = words
        if let namespace, namespace != defaultNamespace { command += " --namespace \(namespace.shellWord)" }
        if let socket { command += " --socket \(socket.shellWord)" }
        return command
    }
}
