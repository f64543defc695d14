import Glibc
import LarderPlatform

/// A file that is replaced as a whole or not at all.
struct RenderedFile {
    /// Where it is; what a symbolic link there leads to, so that the link stays.
    let path: String
    /// Its mode; nil for the one it has, or 0640 for a new file.
    let mode: FileMode?
    /// Its owner; nil for the one it has, or this process's user and group for a new file.
    let owner: FileOwner?

    /// The mode of a new file: what is rendered may be secret.
    private static let newMode: mode_t = 0o640

    /// What there is to do.
    enum Difference {
        /// Nothing: the file is as it should be.
        case none
        /// Its content is right, its owner or mode is not.
        case attributes
        /// Its content is another, or it is not there.
        case content
    }

    init(path: String, mode: FileMode?, owner: FileOwner?) {
        var status = stat()
        let isLink = lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK
        let target = isLink ? realpath(path, nil) : nil
        self.path = target.map { String(cString: $0) } ?? path
        free(target)
        self.mode = mode
        self.owner = owner
    }

    /// Compares the file with what it should be.
    /// - Throws: ``Failure`` where it cannot be read or is no regular file.
    func difference(to text: String) throws(Failure) -> Difference {
        guard let status = try status() else { return .content }
        guard Int(status.st_size) == text.utf8.count, try Input.contents(of: path) == Array(text.utf8) else {
            return .content
        }
        let attributes = try attributes(status)
        let isRight =
            attributes.mode == status.st_mode & 0o7777
            && (attributes.user == .max || attributes.user == status.st_uid)
            && (attributes.group == .max || attributes.group == status.st_gid)
        return isRight ? .none : .attributes
    }

    /// Puts the previous file back if a process was killed before it had checked the new one in its place, and removes what
    /// such processes left.
    /// - Returns: the marker of the file in place if that one still has to be checked.
    func recover() -> UnconfirmedMarker? {
        var unconfirmed: UnconfirmedMarker?
        let killed = "an earlier larder was killed before it had checked \(path)"
        switch UnconfirmedMarker.recover(path) {
        case .none: break
        case .restored:
            syncDirectory()
            Output.note("\(killed); the file that was there before is back, and the new one is checked again")
        case .unconfirmed(let marker, let reason):
            Output.note("\(killed), and the previous file \(reason); \(path) stays until it is checked or replaced")
            unconfirmed = marker
        }
        // A marker may name a hidden file.
        if !UnconfirmedMarker.exists(for: path) {
            var owners: Set<uid_t> = [geteuid()]
            if let user = try? owner?.numbers().user { owners.insert(user) }
            if let status = try? status() { owners.insert(status.st_uid) }
            HiddenFile.removeAbandoned(beside: path, owners: owners)
        }
        return unconfirmed
    }

    /// Why a new file does not stay in place.
    struct Rejection: Error {
        let status: ExitStatus
        /// The reason, in words.
        let reason: String
        /// Whether the same file may be confirmed later.
        let mayBeRepeated: Bool
        /// The state of the file after it was rejected.
        var outcome = Candidate.Outcome.discarded
    }

    /// Replaces the file: writes a new one beside it with its final owner and mode, and renames it. Readers find the old file
    /// or the new one, whole, at any time.
    /// - Parameters:
    ///   - accept: judges the new file at its temporary path, and throws to keep the old one.
    ///   - confirm: judges it in its place, and throws to restore the old one; nil if the old one need not be kept.
    ///   - unconfirmed: the marker of the old one if that one still has to be checked.
    /// - Throws: the errors of the two, a ``Rejection`` with its outcome; ``Failure`` if a file cannot be written.
    func replace(
        with text: String, accept: (String) async throws -> Void = { _ in },
        confirm: (() async throws(Rejection) -> Void)? = nil, unconfirmed: UnconfirmedMarker? = nil
    ) async throws {
        let status = try status()
        let attributes = try attributes(status)
        var isInstalled = false
        var marker: UnconfirmedMarker?
        var previous: (file: HiddenFile, content: [UInt8])?
        // Their locks are held until this call returns.
        defer { extendLifetime((previous?.file, marker)) }
        do {
            let isFirst = status == nil && confirm != nil
            let content = Array(text.utf8)
            let new = try write(content, attributes) {
                Candidate.begin($0, for: path, isFirst: isFirst)
            }
            let temporary = new.path
            defer { extendLifetime(new) }
            if let status, confirm != nil {
                let former = (status.st_mode & 0o7777, status.st_uid, status.st_gid)
                let content = try Input.contents(of: path)
                previous = (try write(content, former) { Candidate.keep($0) }, content)
            }
            try await accept(temporary)
            if confirm != nil {
                marker = UnconfirmedMarker(
                    for: path, content: content, file: temporary, copy: previous?.file.path, replacing: unconfirmed)
                marker?.removeWithCandidate()
            }
            if marker != nil { syncDirectory() }
            guard rename(temporary, path) == 0 else { throw Self.failure("replace", path) }
            isInstalled = true
            syncDirectory()
            if let confirm { try await confirm() } else { unconfirmed?.remove() }
            Candidate.forget()
        } catch {
            let outcome = Candidate.undo(wasInstalled: isInstalled)
            // The file that is back in place has not been checked either. Its copy is no longer there.
            if let unconfirmed, marker != nil, outcome == .restored || outcome == .discarded, let previous {
                _ = UnconfirmedMarker(
                    for: path, content: previous.content, file: nil, copy: previous.file.path, replacing: unconfirmed)
            }
            if isInstalled { syncDirectory() }
            guard var rejection = error as? Rejection else { throw error }
            rejection.outcome = outcome
            throw rejection
        }
    }

    // MARK: Steps

    /// Writes a file beside the output.
    /// - Parameter whenMade: receives its path as soon as it exists.
    private func write(
        _ bytes: [UInt8], _ attributes: (mode: mode_t, user: uid_t, group: gid_t), _ whenMade: (String) -> Void
    ) throws(Failure) -> HiddenFile {
        guard let file = HiddenFile(beside: path) else { throw Self.failure("make a file beside", path) }
        let temporary = file.path
        whenMade(temporary)
        let descriptor = file.openForWriting()
        guard descriptor >= 0 else { throw Self.failure("write", temporary) }
        defer { close(descriptor) }
        let code = bytes.withUnsafeBytes { Output.writeAll($0, to: descriptor) }
        guard code == 0 else { throw Self.failure("write", temporary) }
        // The owner first: a change of it may take bits of the mode away.
        if attributes.user != .max || attributes.group != .max,
            fchown(descriptor, attributes.user, attributes.group) != 0
        {
            let reason = String(cString: strerror(errno))
            throw Failure(
                .failure,
                "cannot give \(path) its owner: \(reason); run larder as root, or name one that it may with --owner")
        }
        guard fchmod(descriptor, attributes.mode) == 0, fsync(descriptor) == 0 else {
            throw Self.failure("write", temporary)
        }
        return file
    }

    /// Writes the names in the directory to disk, if the file system can.
    private func syncDirectory() { try? synchronizeDirectory(Self.split(path).directory) }

    /// What the file's mode and owner are to be.
    private func attributes(_ status: stat?) throws(Failure) -> (mode: mode_t, user: uid_t, group: gid_t) {
        let numbers = try owner?.numbers() ?? (.max, .max)
        // A new file of this process's would otherwise take the place of somebody else's.
        let (ownUser, ownGroup) = (geteuid(), getegid())
        let (user, group) = (status?.st_uid ?? ownUser, status?.st_gid ?? ownGroup)
        return (
            mode?.bits ?? status.map { $0.st_mode & 0o7777 } ?? Self.newMode,
            numbers.user != .max ? numbers.user : user != ownUser ? user : .max,
            numbers.group != .max ? numbers.group : group != ownGroup ? group : .max
        )
    }

    private func status() throws(Failure) -> stat? {
        var status = stat()
        guard lstat(path, &status) == 0 else {
            if errno == ENOENT { return nil }
            throw Self.failure("look at", path)
        }
        if status.st_mode & S_IFMT == S_IFLNK {
            throw Failure(
                .usage, "\(path) is a symbolic link that leads nowhere; remove it, or make what it is to lead to")
        }
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw Failure(.usage, "\(path) is there and is no regular file; name another output, or - to print it")
        }
        return status
    }

    /// A path without a slash is in the working directory.
    static func split(_ path: String) -> (directory: String, name: Substring) {
        guard let slash = path.lastIndex(of: "/") else { return (".", path[...]) }
        let directory = path[..<slash]
        return (directory.isEmpty ? "/" : String(directory), path[path.index(after: slash)...])
    }

    private static func failure(_ action: String, _ path: String) -> Failure {
        Failure(.failure, "cannot \(action) \(path.printable): \(String(cString: strerror(errno)))")
    }
}
