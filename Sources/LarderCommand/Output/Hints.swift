import LarderClient

/// Makes the commands that messages tell the user to run: complete, so that they can be pasted.
struct Hints: Sendable, Equatable {
    /// The socket that the user named; nil if it is the usual one.
    var socket: String?

    /// A command with the options that lead to the same agent and namespace.
    /// - Parameters:
    ///   - words: the command without these, such as `larder refresh --force`.
    ///   - namespace: the namespace that it is about; nil for none.
    func command(_ words: String, namespace: String? = nil) -> String {
        var command = words
        if let namespace, namespace != defaultNamespace { command += " --namespace \(namespace.shellWord)" }
        if let socket { command += " --socket \(socket.shellWord)" }
        return command
    }
}
