import CLinuxShims
import LarderWire
import Glibc

/// A file that a peer names, open to be read to it: one that the peer owns, or that everybody may read, and that the peer
/// could come to by itself. Root and who runs the agent may give any.
///
/// The agent may read more than its clients. So it goes the way to the file one name at a time, as the peer would have to:
/// through directories that the peer may search. Nothing is opened before it is known what it is, because opening alone
/// has effects on pipes and devices. What a peer may not give is answered in one and the same way, whether it is there or
/// not.
final class ManifestFile: Sendable {
    private let file: Descriptor
    private let path: String

    /// Opens it. The disk is waited for.
    ///
    /// - Throws: `denied`, to root and who runs the agent `notFound` and `invalidParams` in its place; `invalidParams` for
    ///   one that is too large
    init(_ path: String, for peer: PeerCredentials) throws(WireError) {
        self.path = path
        let size: Int
        do throws(Refusal) {
            (file, size) = try Self.open(path, for: peer)
        } catch {
            guard peer.isTrusted else { throw Self.denied(path) }
            switch error {
            case .notRegular: throw WireError(.invalidParams, "\(path) is not a regular file")
            case .system(let number): throw Self.unreadable(path, number)
            }
        }
        if size > ImageManifest.maximumBytes { throw Self.tooLarge }
    }

    /// Bytes of it: fewer than asked for only at its end.
    func read(_ count: Int, at offset: Int) throws(WireError) -> [UInt8] {
        var (number, filled): (CInt, Int) = (0, 0)
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            while filled < count {
                let rest = UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(buffer)[filled...])
                let got = pread(file.number, rest.baseAddress, rest.count, off_t(offset + filled))
                if got == 0 { break }
                if got < 0 {
                    if errno == EINTR { continue }
                    number = errno
                    break
                }
                filled += got
            }
            initialized = filled
        }
        guard number == 0 else { throw Self.unreadable(path, number) }
        return bytes
    }

    // MARK: The way to it

    private enum Refusal: Error {
        case notRegular
        case system(CInt)
    }

    /// As many as the kernel follows (path_resolution(7)).
    private static let mostLinks = 40

    private static func open(
        _ path: String, for peer: PeerCredentials
    ) throws(Refusal) -> (file: Descriptor, size: Int) {
        let place = try walk(path, for: peer)
        let status = try place.status()
        guard !place.isKernelFile, status.st_mode & S_IFMT == S_IFREG else { throw .notRegular }
        guard peer.isTrusted || Int(status.st_uid) == peer.uid || status.st_mode & S_IROTH != 0 else {
            throw .system(EACCES)
        }
        // The very file that was looked at, whatever has its name by now.
        let file = try Descriptor(
            openat(AT_FDCWD, "/proc/self/fd/\(place.number)", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY))
        return (file, Int(status.st_size))
    }

    /// Goes to what a path names, through directories that the peer may search.
    private static func walk(_ path: String, for peer: PeerCredentials) throws(Refusal) -> Descriptor {
        let root = try Descriptor("/", at: nil)
        var (place, links) = (root, 0)
        var names: [Substring] = path.split(separator: "/").reversed()
        while let name = names.popLast() {
            // Behind links of the kernel's own is whatever the agent itself has open.
            guard !place.isKernelFile else { throw .notRegular }
            guard peer.maySearch(try place.status()) else { throw .system(EACCES) }
            let next = try Descriptor(String(name), at: place)
            guard try next.status().st_mode & S_IFMT == S_IFLNK else {
                place = next
                continue
            }
            links += 1
            guard links <= mostLinks, let target = next.target else { throw .system(ELOOP) }
            names += target.split(separator: "/").reversed()
            if target.hasPrefix("/") { place = root }
        }
        return place
    }

    // MARK: Errors

    static let tooLarge = WireError(
        .invalidParams, "the manifest has more than \(ImageManifest.maximumBytes) bytes; divide it")

    private static func unreadable(_ path: String, _ number: CInt) -> WireError {
        WireError(.notFound, "\(path) cannot be read: \(String(cString: strerror(number)))")
    }

    private static func denied(_ path: String) -> WireError {
        WireError(
            .denied,
            "\(path) is not there, is no regular file, or is not yours to give: a manifest must belong to you or be "
                + "readable for everybody, in directories that you may search, and the agent must be able to read it")
    }
}

extension ManifestFile {
    /// A descriptor that is closed when nobody has it any more.
    private final class Descriptor: Sendable {
        let number: CInt

        init(_ number: CInt) throws(Refusal) {
            guard number >= 0 else { throw .system(errno) }
            self.number = number
        }

        /// A place in a directory, itself where it is a link; it is not opened.
        convenience init(_ name: String, at directory: Descriptor?) throws(Refusal) {
            try self.init(openat(directory?.number ?? AT_FDCWD, name, CInt(LARDER_O_PATH) | O_NOFOLLOW | O_CLOEXEC))
        }

        deinit { close(number) }

        func status() throws(Refusal) -> stat {
            var status = stat()
            guard fstat(number, &status) == 0 else { throw .system(errno) }
            return status
        }

        /// Whether it is not stored anywhere; yes where the kernel does not say.
        var isKernelFile: Bool { larder_is_kernel_file(number) != 0 }

        /// What a symbolic link points to; nil where that is too long or nothing.
        var target: String? {
            var length = 0
            let bytes = [UInt8](unsafeUninitializedCapacity: Int(PATH_MAX)) { buffer, count in
                length = buffer.withMemoryRebound(to: CChar.self) { text in
                    text.baseAddress.map { readlinkat(number, "", $0, text.count) } ?? -1
                }
                count = max(0, length)
            }
            guard length > 0, length < Int(PATH_MAX) else { return nil }
            return String(validating: bytes, as: UTF8.self)
        }
    }
}

extension PeerCredentials {
    /// Whether the peer may come through a directory (path_resolution(7)), by the bits of its mode.
    fileprivate func maySearch(_ directory: stat) -> Bool {
        if isTrusted { return true }
        if uid == Int(directory.st_uid) { return directory.st_mode & S_IXUSR != 0 }
        let isMember = gid == Int(directory.st_gid) || groups.contains(directory.st_gid)
        return directory.st_mode & (isMember ? S_IXGRP : S_IXOTH) != 0
    }
}
