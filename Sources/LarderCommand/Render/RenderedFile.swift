import Glibc
import LarderPlatform

/// A file that is replaced atomically.
struct RenderedFile {
    /// The path of the file. A symbolic link is resolved, so that the link remains.
    let path: String
    /// The mode; nil to keep the current one, or 0640 for a new file.
    let mode: FileMode?
    /// The owner; nil to keep the current one, or this process's user and group for a new file.
    let owner: FileOwner?

    /// The mode of a new file. Other users cannot read it, because rendered values may be secret.
    private static let newMode: mode_t = 0o640

    /// The change that the file needs.
    enum Difference {
        /// No change.
        case none
        /// A change of the owner or the mode only.
        case attributes
        /// A change of the content, or a new file.
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

    /// Compares the file with its desired content, mode and owner.
    /// - Throws: ``Failure`` if the file cannot be read or is not a regular file.
    func difference(to text: String) throws(Failure) -> Difference {
        guard let status = try status() else { return .content }
        guard Int(status.st_size) == text.utf8.count, try Input.contents(of: path) == Array(text.utf8) else {
            return .content
        }
        let numbers = try owner?.numbers() ?? (.max, .max)
        let isRight =
            (mode.map { $0.bits == status.st_mode & 0o7777 } ?? true)
            && (numbers.user == .max || numbers.user == status.st_uid)
            && (numbers.group == .max || numbers.group == status.st_gid)
        return isRight ? .none : .attributes
    }

    /// Restores the previous file if an earlier process was killed before it had confirmed a new file. Removes the
    /// hidden files of such processes.
    /// - Returns: the marker of the current output file, if that file still has to be confirmed; otherwise nil.
    func recover() -> UnconfirmedMarker? {
        var unconfirmed: UnconfirmedMarker?
        let killed = "an earlier run of larder was killed before it had checked \(path)"
        switch UnconfirmedMarker.recover(path) {
        case .none: break
        case .restored:
            syncDirectory()
            Output.note("\(killed); the previous file has been restored, and the new one is checked again")
        case .unconfirmed(let marker, let reason):
            Output.note("\(killed), and the previous file \(reason); \(path) is kept until it is checked or replaced")
            unconfirmed = marker
        }
        // A marker may name hidden files that are needed to restore the output, so none is deleted while there is a
        // marker.
        if !UnconfirmedMarker.exists(for: path) {
            var owners: Set<uid_t> = [geteuid()]
            if let user = try? owner?.numbers().user { owners.insert(user) }
            if let status = try? status() { owners.insert(status.st_uid) }
            HiddenFile.removeAbandoned(beside: path, owners: owners)
        }
        return unconfirmed
    }

    /// Why a new file is rejected.
    struct Rejection: Error {
        let status: ExitStatus
        /// The reason, as text.
        let reason: String
        /// Whether the command after the change has failed, so that it is due even if the file does not change again.
        let isOfExec: Bool
        /// The state of the output after the rejection.
        var outcome = Candidate.Outcome.discarded
    }

    /// Replaces the file: writes a new one next to it, with its final owner, mode and attributes, and renames it. At any
    /// time readers see either the complete old file or the complete new one.
    /// - Parameters:
    ///   - text: the new content.
    ///   - accept: checks the new file at its temporary path, and throws to keep the old one.
    ///   - confirm: checks the new file after it has replaced the old one, and throws to restore the old one; nil if
    ///     there is no such check, so that no copy of the old file is kept.
    ///   - unconfirmed: the marker of the old file, if that file still has to be confirmed.
    /// - Throws: the errors of `accept` and `confirm`, with ``Rejection/outcome`` set if the error is a ``Rejection``;
    ///   ``Failure`` if a file cannot be written.
    func replace(
        with text: String, accept: (String) async throws -> Void = { _ in },
        confirm: (() async throws(Rejection) -> Void)? = nil, unconfirmed: UnconfirmedMarker? = nil
    ) async throws {
        let status = try status()
        let metadata = try metadata(replacing: status)
        var isInstalled = false
        var marker: UnconfirmedMarker?
        var previous: (file: HiddenFile, content: [UInt8])?
        // Keep the locks on the copy of the old file and on the marker until this method returns. Otherwise another
        // process could delete the copy or restore the old file.
        defer { extendLifetime((previous?.file, marker)) }
        do {
            let isFirst = status == nil && confirm != nil
            let content = Array(text.utf8)
            let new = try write(content, metadata) {
                Candidate.begin($0, for: path, isFirst: isFirst)
            }
            let temporary = new.path
            defer { extendLifetime(new) }
            if let status, confirm != nil {
                let content = try Input.contents(of: path)
                let unchanged = try FileMetadata(of: path, status)
                previous = (try write(content, unchanged) { Candidate.keep($0) }, content)
            }
            try await accept(temporary)
            if confirm != nil {
                marker = UnconfirmedMarker(
                    for: path, content: content, file: temporary, copy: previous?.file.path, replacing: unconfirmed)
                marker?.removeWithCandidate()
            }
            if marker != nil { syncDirectory() }
            guard rename(temporary, path) == 0 else { throw Failure.cannotReplace(path, errno) }
            isInstalled = true
            syncDirectory()
            if let confirm { try await confirm() } else { unconfirmed?.remove() }
            Candidate.commit()
        } catch {
            let outcome = Candidate.undo(wasInstalled: isInstalled)
            // The old file is in place again. It had not been confirmed either, so it needs a marker of its own. The
            // copy that the new marker names no longer exists, because the copy was renamed to the output or deleted.
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

    /// Writes a hidden file next to the output.
    /// - Parameter onCreated: called with the path of the hidden file as soon as the file exists.
    private func write(
        _ bytes: [UInt8], _ metadata: FileMetadata, _ onCreated: (String) -> Void
    ) throws(Failure) -> HiddenFile {
        guard let file = HiddenFile(beside: path) else { throw Failure.cannot("create a file next to", path) }
        let temporary = file.path
        onCreated(temporary)
        let descriptor = file.openForWriting()
        guard descriptor >= 0 else { throw Failure.cannot("write", temporary) }
        defer { close(descriptor) }
        let code = bytes.withUnsafeBytes { Output.writeAll($0, to: descriptor) }
        guard code == 0 else { throw Failure.cannot("write", temporary, code) }
        try metadata.apply(to: descriptor, named: path, ownerRemedy: "pass a permitted owner with --owner")
        guard fsync(descriptor) == 0 else { throw Failure.cannot("write", temporary) }
        return file
    }

    /// Flushes the directory to disk, if the file system supports it.
    private func syncDirectory() { try? synchronizeDirectory(splitPath(path).directory) }

    /// The metadata that the file must get: that of the existing file, except for what `mode` and `owner` specify.
    private func metadata(replacing status: stat?) throws(Failure) -> FileMetadata {
        var metadata = FileMetadata(mode: Self.newMode)
        if let status { metadata = try FileMetadata(of: path, status) }
        let numbers = try owner?.numbers() ?? (.max, .max)
        if numbers.user != .max { metadata.user = numbers.user }
        if numbers.group != .max { metadata.group = numbers.group }
        if let mode { metadata.mode = mode.bits }
        return metadata
    }

    private func status() throws(Failure) -> stat? {
        var status = stat()
        guard lstat(path, &status) == 0 else {
            if errno == ENOENT { return nil }
            throw Failure.cannot("access", path)
        }
        if status.st_mode & S_IFMT == S_IFLNK {
            throw Failure(
                .usage, "\(path) is a symbolic link to a file that does not exist; remove it, or create that file")
        }
        guard status.st_mode & S_IFMT == S_IFREG else {
            throw Failure(.usage, "\(path) exists and is not a regular file; name another output, or - to print it")
        }
        return status
    }
}
