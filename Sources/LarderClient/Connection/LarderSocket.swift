import Glibc

/// Where the agent's socket is. A path that begins with `@` names an abstract socket (unix(7)).
public enum LarderSocket {
    /// The environment variable that names the socket.
    public static let environmentVariable = "LARDER_SOCKET"
    /// The socket of the system's own agent.
    public static let systemPath = "/run/larder/larder.sock"

    /// The socket that a program uses unless it is told otherwise: `$LARDER_SOCKET`, else
    /// `$XDG_RUNTIME_DIR/larder/larder.sock` if it exists, else ``systemPath``.
    public static var defaultPath: String {
        path(environment: { name in getenv(name).map { String(cString: $0) } }, exists: { access($0, F_OK) == 0 })
    }

    /// Where a user's own agent has it; nil without `$XDG_RUNTIME_DIR`, and where `$LARDER_SOCKET` names another.
    static var userPath: String? {
        func value(_ name: String) -> String? {
            getenv(name).map { String(cString: $0) }.flatMap { $0.isEmpty ? nil : $0 }
        }
        if value(environmentVariable) != nil { return nil }
        return value("XDG_RUNTIME_DIR").map { "\($0)/larder/larder.sock" }
    }

    /// The lookup itself. An empty variable counts as one that is not set, as the XDG Base Directory Specification asks.
    static func path(environment: (String) -> String?, exists: (String) -> Bool) -> String {
        if let named = environment(environmentVariable), !named.isEmpty { return named }
        if let directory = environment("XDG_RUNTIME_DIR"), !directory.isEmpty {
            let user = "\(directory)/larder/larder.sock"
            if exists(user) { return user }
        }
        return systemPath
    }
}
