import Glibc

/// The location of the agent socket. A path that begins with `@` names an abstract socket (unix(7)).
///
/// ```swift
/// print(LarderSocket.defaultPath)
/// let client = LarderClient(socket: LarderSocket.systemPath)
/// ```
public enum LarderSocket {
    /// The environment variable that overrides the path of the socket.
    public static let environmentVariable = "LARDER_SOCKET"
    /// The socket of the system-wide agent.
    public static let systemPath = "/run/larder/larder.sock"

    /// The default socket: `$LARDER_SOCKET`, else `$XDG_RUNTIME_DIR/larder/larder.sock` if it exists, else
    /// ``systemPath``. An empty variable counts as unset.
    public static var defaultPath: String {
        path(environment: { name in getenv(name).map { String(cString: $0) } }, exists: { access($0, F_OK) == 0 })
    }

    /// The socket of the user's own agent; nil if `$XDG_RUNTIME_DIR` is unset or `$LARDER_SOCKET` overrides the path.
    static var userPath: String? {
        func value(_ name: String) -> String? {
            getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
        }
        if value(environmentVariable) != nil { return nil }
        return value("XDG_RUNTIME_DIR").map { "\($0)/larder/larder.sock" }
    }

    /// Computes ``defaultPath`` from the given environment and file system. An empty variable counts as unset, as the
    /// XDG Base Directory Specification requires.
    static func path(environment: (String) -> String?, exists: (String) -> Bool) -> String {
        if let named = environment(environmentVariable), !named.isEmpty { return named }
        if let directory = environment("XDG_RUNTIME_DIR"), !directory.isEmpty {
            let user = "\(directory)/larder/larder.sock"
            if exists(user) { return user }
        }
        return systemPath
    }
}
