import Glibc
import LarderClientCore
import LarderPlatform
import LarderProtocol

/// The file system of an agent directory.
struct VolumeFacts: Sendable, Equatable {
    /// The size of the file system, and the space and inodes that are available to users other than root (statvfs(3)).
    struct Capacity: Sendable, Equatable {
        var bytes: Int
        var freeBytes: Int
        /// The total number of inodes; 0 if the file system does not count them.
        var inodes: Int
        var freeInodes: Int
        var isReadOnly: Bool
    }

    /// The result of checking the directory.
    enum State: Sendable, Equatable {
        case capacity(Capacity)
        case missing
        /// The directory cannot be checked, for this reason.
        case hidden(String)
    }

    /// The purpose of the directory: `state` or `images`.
    var purpose: String
    var path: String
    var state: State
    /// The saved snapshots that the agent found damaged and set aside. Only root and the agent's user can see them.
    var damagedSnapshots: [DamagedFile] = []
    /// The copies of journals that the agent found damaged. Only root and the agent's user can see them.
    var damagedJournals: [DamagedFile] = []

    /// A damaged file of a namespace.
    struct DamagedFile: Sendable, Equatable {
        var namespace: String
        var path: String
    }

    /// Whether the directory contains the state, which must not be lost.
    var isState: Bool { purpose == "state" }

    /// Checks the directories that an agent reports.
    static func all(of info: AgentInfo.Result) -> [VolumeFacts] {
        [probe(at: info.stateDirectory, purpose: "state")]
            + (info.imageDirectory.map { [probe(at: $0, purpose: "images")] } ?? [])
    }

    /// Checks a directory.
    static func probe(at path: String, purpose: String) -> VolumeFacts {
        var status = statvfs()
        guard statvfs(path, &status) == 0 else {
            let code = errno
            let isMissing = code == ENOENT || code == ENOTDIR
            return VolumeFacts(
                purpose: purpose, path: path,
                state: isMissing ? .missing : .hidden("\(String(cString: strerror(code))); run as root"))
        }
        let unit = Int(clamping: status.f_frsize)
        return VolumeFacts(
            purpose: purpose, path: path,
            state: .capacity(
                Capacity(
                    bytes: Int(clamping: status.f_blocks) * unit, freeBytes: Int(clamping: status.f_bavail) * unit,
                    inodes: Int(clamping: status.f_files), freeInodes: Int(clamping: status.f_favail),
                    isReadOnly: status.f_flag & UInt(ST_RDONLY) != 0)),
            damagedSnapshots: purpose == "state" ? damagedSnapshots(in: path) : [],
            damagedJournals: purpose == "state" ? damagedJournals(in: path) : [])
    }

    /// Finds the damaged snapshots of all namespaces in a state directory. Directories that cannot be read have none.
    private static func damagedSnapshots(in path: String) -> [DamagedFile] {
        list(path + "/config").flatMap { namespace in
            let directory = "\(path)/config/\(namespace)/generations"
            return list(directory).filter { $0.hasSuffix(".damaged") }.map {
                DamagedFile(namespace: namespace, path: "\(directory)/\($0)")
            }
        }
    }

    /// Finds the copies of damaged journals of all namespaces in a state directory.
    private static func damagedJournals(in path: String) -> [DamagedFile] {
        list(path + "/config").compactMap { namespace in
            let directory = "\(path)/config/\(namespace)"
            guard list(directory).contains("journal.damaged") else { return nil }
            return DamagedFile(namespace: namespace, path: directory + "/journal.damaged")
        }
    }

    /// The sorted names in a directory; empty if it cannot be read.
    private static func list(_ path: String) -> [String] {
        (try? LocalFileSystem().list(path))?.sorted() ?? []
    }
}
