import Glibc

/// The arguments and the environment of a program as C strings, for execve(2).
final class ProgramStrings {
    private typealias Pointer = UnsafeMutablePointer<CChar>

    private let words: [Pointer?]
    /// The strings of the environment that this object has allocated.
    private let own: [Pointer?]
    /// The environment: strings of this process's environment, and ``own``.
    private let variables: [Pointer?]
    /// The places for the process ID of the program in ``own``.
    private let processIDs: [Pointer?]

    /// - Parameters:
    ///   - variables: variables that are added to the environment of this process, and replace variables with the same
    ///     name.
    ///   - namingChild: whether the program is a child for which systemd's variables are meant. Those that name this
    ///     process then name the child.
    init(words: [String], variables: EnvironmentVariables, namingChild: Bool) {
        self.words = words.map { strdup($0) }
        var omitted: [String] = []
        var own: [Pointer?] = variables.names.map { strdup("\($0)=\(variables.values[$0] ?? "")") }
        var places: [Pointer?] = []
        if namingChild {
            for name in Self.variablesWithProcessID where variables.values[name] == nil {
                guard let value = getenv(name), String(cString: value) == "\(getpid())" else { continue }
                let text = strdup("\(name)=" + String(repeating: "0", count: Self.processIDLength))
                own.append(text)
                places.append(text.map { $0 + name.utf8.count + 1 })
                // LISTEN_PIDFDID identifies the same process as LISTEN_PID, and is optional.
                omitted += [name] + (name == "LISTEN_PID" ? ["LISTEN_PIDFDID"] : [])
            }
        }
        self.own = own
        processIDs = places
        self.variables = Self.inherited { variables.values[$0] == nil && !omitted.contains($0) } + own
    }

    deinit { for text in words + own { free(text) } }

    /// Calls `body` with the arguments, the environment and the places for the process ID, as null-terminated arrays.
    func withPointers<Result>(
        _ body: (
            UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>, UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>,
            UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>
        ) -> Result
    ) -> Result {
        var (words, variables, places) = (words + [nil], variables + [nil], processIDs + [nil])
        return body(&words, &variables, &places)
    }

    /// Whether execve(2) would refuse the strings with E2BIG: one string has at most 32 pages, and all strings with
    /// their pointers a quarter of the limit for the stack, at most 6 MiB.
    var exceedLimit: Bool {
        let lengths = (words + variables).map { $0.map { strlen($0) + 1 } ?? 0 }
        let total = lengths.reduce(0) { $0 + $1 + MemoryLayout<Pointer>.size }
        return (lengths.max() ?? 0) > 32 * Int(getpagesize()) || total > min(sysconf(CInt(_SC_ARG_MAX)), 6 << 20)
    }

    /// Variables of systemd that name the process that they are meant for: sd_listen_fds(3), sd_watchdog_enabled(3).
    private static let variablesWithProcessID = ["LISTEN_PID", "WATCHDOG_PID"]
    /// The room for a process ID that ``larder_start(_:)`` requires.
    private static let processIDLength = 12

    /// The environment of this process, byte for byte, without the variables that `isKept` refuses.
    private static func inherited(_ isKept: (String) -> Bool) -> [Pointer?] {
        var kept: [Pointer?] = []
        var entry = environ
        while let text = entry.pointee {
            entry += 1
            let name = UnsafeBufferPointer(start: text, count: strlen(text)).prefix { $0 != CChar(UInt8(ascii: "=")) }
            let bytes = name.lazy.map { UInt8(bitPattern: $0) }
            let isReplaced = String(validating: bytes, as: UTF8.self).map { !isKept($0) } ?? false
            if !isReplaced, !DispatchTraces.isOwn(bytes) { kept.append(text) }
        }
        return kept
    }
}
