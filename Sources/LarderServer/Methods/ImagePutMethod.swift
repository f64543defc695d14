import CLinuxShims
import Glibc
import LarderImages
import LarderPlatform
import LarderProtocol
import Synchronization

/// `image.put`: images that clients bring, in the request's line or as an open file.
extension Connection {
    /// Whether descriptors are received from a peer with these rights. For others the kernel closes them: closing a descriptor
    /// may take time if a program of the peer serves the file.
    static func takesDescriptors(_ rights: PeerRights, _ server: ServerContext) -> Bool {
        server.images != nil && rights.general.contains(.push) && rights.general.contains(.images)
    }

    /// Whether a descriptor that comes with the next input is received.
    var mayTakeDescriptor: Bool { takesDescriptors && passedFiles?.open.isFull != true }

    /// Keeps what came with input until the lines are served to which it may belong.
    func receive(_ passed: larder_passed) {
        guard takesDescriptors, let images = loop.server.images else { return }
        let passedFiles = passedFiles ?? PassedFiles(of: usage)
        self.passedFiles = passedFiles
        guard passed.descriptor >= 0 else { return passedFiles.received.add(.lost) }
        let files = passedFiles.open
        let isOverLimit = usage.refusalOfFile(limits) != nil
        files.add()
        let (blocking, closer) = (images.blocking, images.closer)
        let file = PassedInFile(passed.descriptor) { descriptor in
            guard PassedInFile.isInMemory(descriptor) else { return closer.close(descriptor) { files.remove() } }
            // The kernel may have much memory to free.
            blocking.submit {
                Glibc.close(descriptor)
                files.remove()
            }
        }
        passedFiles.received.add(isOverLimit ? .lost : passed.is_cut ? .several : .file(file))
    }

    /// Carries out an `image.put`.
    func servePut(_ request: MethodTable.OwnRequest<ImagePut>) throws(WireError) {
        let parameters = request.parameters
        let images = try scope.images(of: parameters.image)
        let content: PutContent
        switch parameters.content {
        case .inline(let bytes): content = .bytes(bytes)
        case .descriptor:
            if request.place != nil {
                throw WireError(
                    .invalidParams, "no descriptor belongs to a request of a batch; send it outside the batch")
            }
            content = .file(try receivedFile())
        }
        let work = MethodTable.Work(admission: request.admission) { () async throws(WireError) in
            try await WireError.from { () async throws(ImageError) in
                var image = ImageRequest(parameters.image)
                image.expectedDigest = parameters.expectedDigest.flatMap { BlobDigest(hex: $0.hex) }
                let stored = try await images.cache.put(image, content, lifetime: parameters.lifetimeSeconds)
                return ImagePut.Result(image: WireImage(stored))
            }
        }
        try serveLater(request.id, work, endsWithConnection: true, in: request.place)
    }

    private func receivedFile() throws(WireError) -> PassedInFile {
        switch passedFiles?.received.take() {
        case .file(let file): return file
        case .several:
            throw WireError(.invalidParams, "several descriptors came with the request; pass one")
        case .lost:
            loop.traffic.refused.requests += 1
            throw WireError(
                .limitExceeded,
                "the limit of open files is reached, for this connection, this user or the agent; send it again when other "
                    + "requests are answered")
        case nil:
            throw WireError(
                .invalidParams,
                "no descriptor came with the request; pass one with the first byte of its line (SCM_RIGHTS), not through a "
                    + "relay")
        }
    }
}

/// The descriptors that a connection has passed. Most connections pass none and have no such object.
final class PassedFiles {
    var received = ReceivedDescriptors()
    let open: OpenFiles

    init(of usage: UserUsage) { open = OpenFiles(of: usage) }

    /// A line was served: what belongs to it is closed.
    func endLine() {
        if !received.isEmpty { received.endLine() }
    }
}

/// How many descriptors that came over a connection are open. They count as open files of its user.
final class OpenFiles: Sendable {
    /// The maximum per connection, including descriptors that wait to be closed.
    private static let limit = 4

    private let usage: UserUsage
    private let count = Atomic(0)

    init(of usage: UserUsage) { self.usage = usage }

    var isFull: Bool { count.load(ordering: .relaxed) >= Self.limit }

    func add() {
        count.add(1, ordering: .relaxed)
        usage.addFile()
    }

    func remove() {
        count.subtract(1, ordering: .relaxed)
        usage.removeFile()
    }
}
