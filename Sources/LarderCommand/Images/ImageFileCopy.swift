import Glibc
import LarderClientCore
import LarderDigest
import LarderEncoding
import LarderPlatform
import LarderProtocol
import SystemPackage

/// Copies an image out of the cache. Fails unless the copy has the size and the digest that the agent reported.
struct ImageFileCopy {
    /// The image's file in the cache, positioned at its start.
    let source: ReceivedFile
    /// The path of the image's file in the cache, for errors.
    let path: String
    /// The properties that the agent reported, with the expected size and digest.
    let image: WireImage

    /// Copies to standard output.
    /// - Throws: ``Failure`` if the image cannot be read or written completely, or does not have the expected size and
    ///   digest.
    func toStandardOutput() throws(Failure) {
        try copy(to: STDOUT_FILENO, named: "standard output")
    }

    /// Copies to a file, which is replaced atomically and keeps its owner, mode and attributes. A device or pipe is
    /// written directly.
    /// - Throws: ``Failure`` if the image cannot be read or written completely, does not have the expected size and
    ///   digest, or if the new file cannot keep all metadata. An existing regular file is then unchanged.
    func toFile(_ path: String) throws(Failure) {
        var status = stat()
        let exists = stat(path, &status) == 0
        if exists, status.st_mode & S_IFMT == S_IFDIR {
            throw Failure(.usage, "\(path.printable) is a directory; name a file in it")
        }
        if exists, status.st_mode & S_IFMT != S_IFREG { return try toSpecial(path) }
        // Replace the target of a symbolic link, so that the link remains.
        let resolved = exists ? realpath(path, nil) : nil
        defer { free(resolved) }
        let target = resolved.map { String(cString: $0) } ?? path
        let slash = target.lastIndex(of: "/").map { target.index(after: $0) } ?? target.startIndex
        let temporary =
            "\(target[..<slash]).\(target[slash...].prefix(200)).larder-\(getpid())-\(UInt32.random(in: 0 ... .max))"
        let metadata: FileMetadata? = exists ? try FileMetadata(of: target, status) : nil
        defer { Candidate.commit() }
        var file: AtomicReplace
        do throws(AtomicReplace.Failure) {
            // The mode of a new file is subject to the umask. The replacement of an existing file is private until it
            // gets the metadata of that file.
            file = try AtomicReplace(target, temporary: temporary, mode: exists ? 0o600 : 0o666)
        } catch {
            throw Failure.cannot("create a file next to", path, error.error.rawValue)
        }
        Candidate.protect(temporary)
        try copy(to: file.descriptor, named: path)
        try metadata?.apply(to: file.descriptor, named: path)
        do throws(AtomicReplace.Failure) {
            try file.replace(synchronizing: true)
        } catch {
            throw Failure.cannotReplace(path, error.error.rawValue)
        }
    }

    private func toSpecial(_ path: String) throws(Failure) {
        let descriptor = open(path, O_WRONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw Failure.cannot("open", path) }
        defer { close(descriptor) }
        try copy(to: descriptor, named: path)
    }

    private func copy(to output: CInt, named path: String) throws(Failure) {
        var hash = SHA256()
        var chunk = [UInt8](repeating: 0, count: 1 << 20)
        var copied = 0
        while true {
            let count = read(source.descriptor, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Failure.cannot("read", self.path) }
            if count == 0 { break }
            copied += count
            guard copied <= image.bytes else { throw differs("has more than the \(image.bytes) bytes") }
            let code = chunk.withUnsafeBytes { bytes in
                let piece = UnsafeRawBufferPointer(rebasing: bytes[..<count])
                hash.update(piece)
                return Output.writeAll(piece, to: output)
            }
            if code == EPIPE, output == STDOUT_FILENO { Output.endByBrokenPipe() }
            guard code == 0 else { throw Failure.cannot("write", path, code) }
        }
        guard copied == image.bytes else { throw differs("has \(copied) bytes, not the \(image.bytes) bytes") }
        guard WireDigest(hash.finalize().hex) == image.digest else {
            throw differs("does not have the SHA-256")
        }
    }

    private func differs(_ what: String) -> Failure {
        Failure(
            .failure,
            "\(path.printable) \(what) that the agent reported; check the agent's log, and retry with --policy networkOnly"
        )
    }
}

extension ImageFileCopy {
    /// - Parameters:
    ///   - file: the file that the agent passed; nil to open the path of the result
    ///   - result: the result of the request for the image
    /// - Throws: ``Failure`` if the file cannot be opened
    init(of file: ReceivedFile?, _ result: ImageGet.Result) throws(Failure) {
        if let file {
            self.init(source: file, path: result.path, image: result.image)
            return
        }
        let descriptor = open(result.path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw Failure(
                .failure,
                "the agent passed no descriptor, and \(result.path.printable) cannot be read: "
                    + String(cString: strerror(errno)))
        }
        self.init(source: ReceivedFile(descriptor), path: result.path, image: result.image)
    }
}
