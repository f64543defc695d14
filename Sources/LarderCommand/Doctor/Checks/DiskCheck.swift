import LarderClientCore
import LarderEncoding
import LarderProtocol

/// Checks that there is enough disk space for the agent, and that its writes succeed.
enum DiskCheck {
    static let name = "disk"
    /// The free space, in bytes, below which writes may fail at any time: 1 MiB, or 2 % of a small file system.
    private static func minFreeBytes(_ capacity: VolumeFacts.Capacity) -> Int { min(1 << 20, capacity.bytes / 50) }
    /// The free space, in bytes, below which an administrator should act: 5 % of the file system, but at least 64 MiB, or
    /// 10 % of a small file system.
    private static func lowFreeBytes(_ capacity: VolumeFacts.Capacity) -> Int {
        max(capacity.bytes / 20, min(64 << 20, capacity.bytes / 10))
    }

    /// The findings about the file systems, and about namespaces that cannot write their state. A file system with
    /// enough space on which the agent cannot write is not called ok.
    /// - Parameter facts: what the agent reports; nil if it did not reply
    static func findings(_ volumes: [VolumeFacts], _ facts: AgentFacts?, _ hints: Hints = Hints()) -> [Finding] {
        // Another check reports an agent without a status.
        let namespaces = (try? facts?.status.get())?.namespaces ?? []
        let failures = namespaces.flatMap { findings($0) }
        let usable = volumes.filter { volume in
            let isFailing =
                volume.isState
                ? !failures.isEmpty : facts?.info.imageProblem != nil || facts?.info.lacksImageSpace == true
            return !isFailing || finding(volume).level != .ok
        }
        return usable.map { finding($0, hints) } + failures + volumes.flatMap { damage($0, hints) }
    }

    /// The findings that the agent has set damaged snapshots aside, and that it kept copies of damaged journals; empty if
    /// there are no such files.
    static func damage(_ volume: VolumeFacts, _ hints: Hints = Hints()) -> [Finding] {
        snapshotDamage(volume, hints) + volume.damagedJournals.map { journalDamage($0, hints) }
    }

    private static func journalDamage(_ journal: VolumeFacts.DamagedFile, _ hints: Hints) -> Finding {
        let overrides = hints.command("larder explain --overrides", namespace: journal.namespace)
        return Finding(
            .warning, name,
            "\(journal.namespace): its journal was damaged or cut off by a crash, so its last changes may be missing",
            detail: [journal.path],
            advice: [
                "compare its overrides with those that you expect: \(overrides)",
                "check the disk: sudo dmesg | tail",
                "then end this warning: sudo rm \(journal.path.shellWord)",
            ])
    }

    private static func snapshotDamage(_ volume: VolumeFacts, _ hints: Hints) -> [Finding] {
        Dictionary(grouping: volume.damagedSnapshots, by: \.namespace).sorted { $0.key < $1.key }.map {
            namespace, files in
            let count = Human.count(files.count, "saved snapshot was", "saved snapshots were")
            let overrides = hints.command("larder explain --overrides", namespace: namespace)
            return Finding(
                .warning, name, "\(namespace): \(count) damaged and set aside", detail: files.map(\.path),
                advice: [
                    "the namespace started with an older snapshot, or without one if none was intact; compare its overrides: "
                        + overrides,
                    "check the disk: sudo dmesg | tail; then remove the file to end this warning",
                ])
        }
    }

    /// The finding that a namespace cannot write its state; empty if it can.
    static func findings(_ namespace: ConfigStatus.Namespace) -> [Finding] {
        guard let error = namespace.writeError else { return [] }
        return [
            Finding(
                .problem, name, "\(namespace.namespace) cannot write its state to disk", detail: [error.message],
                advice: ["free space or repair the disk; the agent tries again every five seconds"])
        ]
    }

    /// What to add to the failure of a request because the agent cannot write to a disk: the directory, its free space and
    /// what to do; nil if there is enough space.
    static func advice(_ volumes: [VolumeFacts], _ hints: Hints) -> String? {
        let findings = volumes.map { finding($0, hints) }.filter { $0.level == .problem }
        return findings.first.map { ([$0.title] + $0.advice).joined(separator: "; ") }
    }

    static func finding(_ volume: VolumeFacts, _ hints: Hints = Hints()) -> Finding {
        let place = "\(volume.purpose) \(volume.path)"
        switch volume.state {
        case .hidden(let reason): return Finding(.skipped, name, "\(place): \(reason)")
        case .missing:
            return Finding(
                .problem, name, "\(place) does not exist",
                advice: ["restart the agent, which creates the directory, and find out what deleted it"])
        case .capacity(let capacity):
            let free = "\(Human.bytes(capacity.freeBytes)) of \(Human.bytes(capacity.bytes)) free"
            let path = volume.path.shellWord
            let mountPoint = "\"$(findmnt -n -o TARGET -T \(path))\""
            if capacity.isReadOnly {
                return Finding(
                    .problem, name, "\(place) is on a file system that is mounted read-only",
                    detail: ["the agent can store neither changes nor images"],
                    advice: ["find the cause: sudo dmesg | tail", "then: sudo mount -o remount,rw \(mountPoint)"])
            }
            if capacity.freeBytes < minFreeBytes(capacity) {
                return Finding(
                    .problem, name, "\(place): the file system is full (\(free))", detail: [consequence(volume)],
                    advice: ["find what uses the space: sudo du -xh --max-depth=1 \(mountPoint) | sort -h"]
                        + (volume.isState
                            ? [] : ["remove images that are not pinned: \(hints.command("larder image clear"))"]))
            }
            if capacity.inodes > 0, capacity.freeInodes < 16 {
                return Finding(
                    .problem, name,
                    "\(place): the file system has only \(capacity.freeInodes) inodes left for new files",
                    detail: [consequence(volume)],
                    advice: ["delete files that are not needed; check the free inodes with: df -i \(path)"])
            }
            if capacity.freeBytes < lowFreeBytes(capacity) || (capacity.inodes > 0 && capacity.freeInodes < 1024) {
                return Finding(
                    .warning, name, "\(place): disk space is low (\(free), \(capacity.freeInodes) free inodes)",
                    advice: ["check with: df -h \(path)"])
            }
            return Finding(.ok, name, "\(place): \(free)")
        }
    }

    private static func consequence(_ volume: VolumeFacts) -> String {
        volume.isState
            ? "changes fail once the journal has no room, but the agent still serves the current configuration"
            : "the agent downloads no images, but still serves those that are cached"
    }
}
