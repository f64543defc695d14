import Glibc
internal import SystemPackage

/// The steps that ``LocalFileSystem`` and ``LocalDirectoryFiles`` share. They differ in how a name is resolved.
protocol FileAccess: Sendable {
    /// Opens a file with O_CLOEXEC.
    /// - Returns: the descriptor, or -1 with errno set
    func open(_ name: String, _ flags: CInt, mode: mode_t) -> CInt
    /// The error of the last system call, from errno.
    func failure(_ operation: String, _ name: String) -> FileError
}

extension FileAccess {
    /// Opens a file that must exist unless `flags` has O_CREAT.
    func descriptor(
        of name: String, _ operation: String, _ flags: CInt, mode: mode_t = 0
    ) throws(FileError) -> FileDescriptor {
        let result = open(name, flags, mode: mode)
        guard result >= 0 else { throw failure(operation, name) }
        return FileDescriptor(rawValue: result)
    }

    /// Opens the directory of a file, and returns it with the last component of the name. The *at calls cannot restrict
    /// name resolution, so they are only given names without a slash.
    func parent(
        of name: String, _ operation: String, _ flags: CInt = OpenBeneath.placeFlags
    ) throws(FileError) -> (directory: CInt, last: String) {
        let (directory, last) = splitPath(name)
        let descriptor = open(directory, flags, mode: 0)
        guard descriptor >= 0 else { throw failure(operation, name) }
        return (descriptor, last)
    }

    /// Calls `call` with the descriptor of the directory of a file and the last component of the name.
    /// - Parameters:
    ///   - flags: the flags to open the directory with
    ///   - call: makes the system call; returns false and sets errno if it fails
    func inParent(
        of name: String, _ operation: String, _ flags: CInt = OpenBeneath.placeFlags,
        _ call: (CInt, String) -> Bool
    ) throws(FileError) {
        let (directory, last) = try parent(of: name, operation, flags)
        defer { close(directory) }
        guard call(directory, last) else { throw failure(operation, name) }
    }

    /// Removes a name (unlinkat(2)).
    /// - Returns: false if it does not exist
    func unlink(_ name: String, _ flags: CInt = 0) throws(FileError) -> Bool {
        do throws(FileError) {
            try inParent(of: name, "remove") { parent, last in uninterrupted { unlinkat(parent, last, flags) } == 0 }
            return true
        } catch {
            guard error.errno == ENOENT else { throw error }
            return false
        }
    }

    /// The names in a directory.
    func names(in directory: String, _ operation: String) throws(FileError) -> [String] {
        let descriptor = try descriptor(of: directory, operation, O_RDONLY | O_DIRECTORY)
        do throws(Errno) {
            return try DirectoryListing.names(closing: descriptor.rawValue)
                .map { String(decoding: $0, as: UTF8.self) }
        } catch {
            throw FileError("list", directory, errno: error.rawValue)
        }
    }
}

/// Splits a path into directory and name. Without a slash, the directory is `.`.
package func splitPath(_ path: String) -> (directory: String, name: String) {
    guard let slash = path.lastIndex(of: "/") else { return (".", path) }
    let directory = slash == path.startIndex ? "/" : String(path[..<slash])
    return (directory, String(path[path.index(after: slash)...]))
}

/// The path, relative to the root directory. If the current directory no longer exists, returns a relative path unchanged.
package func absolutePath(_ path: String) -> String {
    guard !path.hasPrefix("/"), let directory = getcwd(nil, 0) else { return path }
    defer { free(directory) }
    return String(cString: directory) + "/" + path
}
