/// Commands to watchman as JSON lines (facebook.github.io/watchman/docs/socket-interface).
enum WatchmanRequest {
    static func watch(_ directory: String) -> [UInt8] { line(#"["watch","\#(directory)"]"#) }

    /// Subscribes to the names of what changes in `directory`, which is watched already.
    static func subscribe(_ directory: String) -> [UInt8] {
        line(#"["subscribe","\#(directory)","bench",{"fields":["name"]}]"#)
    }

    private static func line(_ text: String) -> [UInt8] { Array((text + "\n").utf8) }
}
