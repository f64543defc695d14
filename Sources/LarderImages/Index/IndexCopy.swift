import Glibc
internal import LarderHTTPSemantics
internal import LarderPlatform

/// The copy of the index (`index-copy.sqlite`), from which a damaged index is restored.
///
/// A copy is written under a temporary name, verified, made durable and then renamed, so the copy is always complete. A
/// restored index is created in the same way. All methods block on the disk.
struct IndexCopy: Sendable {
    /// The path of the cache directory.
    private let directory: String
    private let files: any DirectoryFiles
    private let accounts: BlobAccounts

    private static let newCopy = "index-copy.new"
    private static let newIndex = "index.new"
    /// The number of rows that are read or restored at once.
    private static let slice = 500

    init(_ store: BlobStore) { (directory, files, accounts) = (store.path, store.files, store.accounts) }

    /// The path of a copy in progress.
    var newPath: String { path(Self.newCopy) }

    /// Creates the file for a new copy.
    func begin() throws(ImageError) { try makeFile(Self.newCopy) }

    /// Replaces the previous copy by the new, complete one, after verifying that the new one is intact. Without this
    /// check, the copy of a damaged index could replace a good copy. Any thread may call it while no copy is made.
    func publish() throws(ImageError) {
        do throws(ImageError) {
            try verify()
            try rename(Self.newCopy, to: IndexFormat.copy)
            _ = try? files.remove(IndexFormat.copyMark)
        } catch {
            if error.code == .indexDamaged { _ = try? files.create(IndexFormat.damageMark) }
            throw error
        }
    }

    private func verify() throws(ImageError) {
        do throws(SQLiteError) {
            let database = try IndexDatabase(path: path(Self.newCopy))
            // Read both tables of the index: a start of the agent reads only one of them, so damage in the other is
            // found here.
            var (count, last) = (0, ImageKey?.none)
            while true {
                if accounts.isInterrupted { throw SQLiteError.interrupted }
                let found = try database.rows(after: last, limit: Self.slice)
                guard let end = found.last else { break }
                last = end.key
                count += found.count { $0.row != nil }
            }
            let entries = try database.forEachEntry(isInterrupted: { accounts.isInterrupted })
            guard entries == count else { throw SQLiteError.damage("the copy has damaged rows") }
            try database.checkpoint()
        } catch {
            discard()
            throw error.asImageError
        }
    }

    /// Removes a copy in progress.
    func discard() { for suffix in ["", "-wal"] { _ = try? files.remove(Self.newCopy + suffix) } }

    /// When the copy was written, in seconds since 1970; nil if there is no copy.
    var time: Int? { Self.time(in: directory) }

    static func time(in directory: String) -> Int? {
        var information = stat()
        guard stat(directory + "/" + IndexFormat.copy, &information) == 0 else { return nil }
        return Int(information.st_mtim.tv_sec)
    }

    /// Creates the index from the copy. Omits rows whose blob does not exist or has another size than the row states.
    /// If a page of the copy is damaged, that page's rows and all later ones are lost.
    ///
    /// - Parameter now: the time in seconds since 1970 from which restored rows count as stale
    /// - Returns: the number of restored rows, and the number of pinned ones among them; nil if there is no usable copy
    func restore(now: Int) throws(ImageError) -> (rows: Int, pins: Int)? {
        guard let copy = try usable() else { return nil }
        try makeFile(Self.newIndex)
        let index = try ImageError.from { () throws(SQLiteError) in try IndexDatabase(path: path(Self.newIndex)) }
        var restored = (rows: 0, pins: 0)
        var last: ImageKey?
        while let found = try page(of: copy, after: last), let end = found.last {
            if accounts.isInterrupted { throw SQLiteError.interrupted.asImageError }
            last = end.key
            var rows: [ImageRow] = []
            for var row in found.compactMap(\.row) where try size(of: row.digest) == row.size {
                row.response.staleSince = min(now, row.response.staleSince ?? now)
                rows.append(row)
            }
            try ImageError.from { () throws(SQLiteError) in try index.put(rows) }
            restored.rows += rows.count
            restored.pins += rows.count(where: \.isPinned)
        }
        try ImageError.from { () throws(SQLiteError) in try index.checkpoint() }
        try rename(Self.newIndex, to: IndexFormat.index)
        return restored
    }

    /// The next rows of a copy; nil if they are damaged.
    private func page(of copy: IndexDatabase, after key: ImageKey?) throws(ImageError) -> [IndexRows.Found]? {
        do throws(SQLiteError) {
            return try copy.rows(after: key, limit: Self.slice)
        } catch {
            guard error.isDamage else { throw error.asImageError }
            return nil
        }
    }

    /// The size of a blob's file; nil if the file is missing. Any other failure aborts the restoration, and the next
    /// start tries again.
    private func size(of digest: BlobDigest) throws(ImageError) -> Int? {
        try ImageError.from { () throws(FileError) in try files.open(BlobFiles.name(digest))?.size() }
    }

    private func usable() throws(ImageError) -> IndexDatabase? {
        guard time != nil else { return nil }
        do throws(SQLiteError) {
            let copy = try IndexDatabase(path: path(IndexFormat.copy))
            if copy.isNew { return nil }
            let entries = try copy.forEachEntry(isInterrupted: { accounts.isInterrupted })
            return entries == 0 ? nil : copy
        } catch {
            guard error.isDamage else { throw error.asImageError }
            return nil
        }
    }

    private func path(_ name: String) -> String { directory + "/" + name }

    private func makeFile(_ name: String) throws(ImageError) {
        try ImageError.from { () throws(FileError) in
            // Mode 0600, because URLs may contain secrets. SQLite gives its log the same mode.
            for suffix in ["", "-wal", "-journal"] { _ = try files.remove(name + suffix) }
            _ = try files.create(name)
        }
    }

    /// Makes a database durable and renames it. Removes the write-ahead log of the previous file first, because SQLite
    /// would apply that log to the new file.
    private func rename(_ name: String, to newName: String) throws(ImageError) {
        try ImageError.from { () throws(FileError) in
            let file = uninterrupted { open(path(name), O_RDWR | O_CLOEXEC | O_NOFOLLOW) }
            guard file >= 0 else { throw FileError("open", name, errno: errno) }
            defer { close(file) }
            guard uninterrupted({ fsync(file) }) == 0 else {
                throw FileError("fsync", name, errno: errno)
            }
            for suffix in ["-wal", "-journal"] { _ = try files.remove(newName + suffix) }
            try files.replace(name, as: newName)
            try files.synchronizeDirectory(".")
        }
    }
}

/// Decides when to copy the index: a day after the last copy if rows changed, and within a minute after the more
/// important changes that ``ImageIndex/Unsaved/hasPins`` lists.
struct IndexCopySchedule: Sendable {
    private static let day = 86_400
    /// The minimum number of seconds between attempts, so that pins that change together are copied together. The
    /// schedule is checked every ten seconds.
    private static let pause = 30

    private var last: Int?
    private var lastTry: Int?

    /// - Parameter last: when the last copy was written, in seconds since 1970; nil if there is no copy
    init(last: Int?) { self.last = last }

    func isDue(_ unsaved: ImageIndex.Unsaved, at now: Int) -> Bool {
        if let lastTry, lastTry <= now, now - lastTry < Self.pause { return false }
        if unsaved.hasPins { return true }
        guard unsaved.hasRows else { return false }
        // A clock that was set back must not defer the next copy.
        guard let last, last <= now else { return true }
        return now - last >= Self.day
    }

    mutating func begin(at now: Int) { lastTry = now }

    mutating func succeed(at now: Int) { last = now }
}
