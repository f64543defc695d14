/// Is there enough disk space for the agent?
enum DiskCheck {
    private static let name = "disk"
    /// The free space, in bytes, below which writes may fail at any time. It is relative for small file systems.
    private static func minFreeBytes(_ room: VolumeFacts.Room) -> Int { min(1 << 20, room.bytes / 50) }
    /// The free space, in bytes, below which an administrator should act.
    private static func little(_ room: VolumeFacts.Room) -> Int { min(64 << 20, room.bytes / 10) }

    static func findings(_ volumes: [VolumeFacts]) -> [Finding] { volumes.map(finding) }

    private static func finding(_ volume: VolumeFacts) -> Finding {
        let place = "\(volume.purpose) \(volume.path)"
        switch volume.state {
        case .hidden(let reason): return Finding(.skipped, name, "\(place): \(reason)")
        case .missing:
            return Finding(
                .problem, name, "\(place) is not there",
                advice: ["restart the agent, which makes it, and see why it went: something deletes what it needs"])
        case .room(let room):
            let free = "\(Human.bytes(room.freeBytes)) of \(Human.bytes(room.bytes)) free"
            if room.isReadOnly {
                return Finding(
                    .problem, name, "\(place) is on a file system that is mounted read-only",
                    detail: ["nothing that is set or fetched can be kept"],
                    advice: ["see why: dmesg | tail; then: sudo mount -o remount,rw MOUNTPOINT"])
            }
            if room.freeBytes < minFreeBytes(room) {
                return Finding(
                    .problem, name, "\(place): the file system is full (\(free))", detail: [consequence(volume)],
                    advice: ["see what takes the room: du -xh --max-depth=1 MOUNTPOINT | sort -h"])
            }
            if room.inodes > 0, room.freeInodes < 16 {
                return Finding(
                    .problem, name, "\(place): the file system has no inodes left for new files",
                    detail: [consequence(volume)],
                    advice: ["see: df -i \(volume.path); remove directories of small files"])
            }
            if room.freeBytes < little(room) || (room.inodes > 0 && room.freeInodes < 1024) {
                return Finding(
                    .warning, name, "\(place): little room is left (\(free), \(room.freeInodes) inodes)",
                    advice: ["see: df -h \(volume.path)"])
            }
            return Finding(.ok, name, "\(place): \(free)")
        }
    }

    private static func consequence(_ volume: VolumeFacts) -> String {
        volume.isState
            ? "what is set or pushed is refused; the configuration that is held is served all the same"
            : "no further images are fetched; those that are held are served all the same"
    }
}
