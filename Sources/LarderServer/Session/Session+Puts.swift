import CLinuxShims
import LarderImages
import LarderUpstream
import LarderWire
import Synchronization

/// `image.put`: images that clients bring, in the request's line or as an open file.
extension Session {
    /// The files of a connection that may be open at once.
    private static let maxFiles = 4

    /// Whether descriptors are received from a peer with these rights. For others the kernel closes them: closing a descriptor
    /// may take time if a program of the peer serves the file.
    static func takesDescriptors(_ rights: PeerRights, _ server: ServerContext) -> Bool {
        server.images != nil && rights.general.contains(.push) && rights.general.contains(.images)
    }

    /// Keeps what came with input until the lines are served to which it may belong.
    func receive(_ passed: larder_passed) {
        guard takesDescriptors, let images = loop.server.images else { return }
        switch (passed.descriptor, passed.is_cut) {
        case (0..., let isCut):
            // No event loop waits for a file system.
            let blocking = images.blocking
            let file = PassedInFile(passed.descriptor) { descriptor in
                blocking.submit { larder_close_passed(descriptor) }
            }
            received.add(isCut ? .several : .file(file))
        case (_, true): received.add(.lost)
        case (_, false): break
        }
    }

    /// Carries out an `image.put`.
    func servePut(_ request: MethodTable.OwnRequest<ImagePut>) throws(WireError) {
        let parameters = request.parameters
        let images = try scope.images(of: parameters.image)
        let content: PutContent
        var place: FilePlace?
        switch parameters.content {
        case .inline(let bytes): content = .bytes(bytes)
        case .descriptor:
            if request.place != nil {
                throw WireError(
                    .invalidParams, "no descriptor belongs to a request of a batch; send it outside the batch")
            }
            let file = try receivedFile()
            place = try filePlace()
            content = .file(file)
        }
        let work = MethodTable.Work(admission: request.admission) { [place] () async throws(WireError) in
            // Before the reply, so that the client may send the next request then.
            defer { place?.end() }
            return try await WireError.from { () async throws(ImageError) in
                var image = ImageRequest(parameters.image)
                image.expectedDigest = parameters.expectedDigest.flatMap { BlobDigest(hex: $0.hex) }
                let stored = try await images.cache.put(image, content, lifetime: parameters.lifetimeSeconds)
                return ImagePut.Result(image: WireImage(stored))
            }
        }
        try serveLater(request.id, work, endsWithConnection: true, in: request.place)
    }

    private func receivedFile() throws(WireError) -> PassedInFile {
        switch received.take() {
        case .file(let file): return file
        case .several:
            throw WireError(.invalidParams, "several descriptors came with the request; pass one")
        case .lost:
            throw WireError(
                .limitExceeded, "the agent may open no more files, so that the descriptor was lost; send it again later"
            )
        case nil:
            throw WireError(
                .invalidParams,
                "no descriptor came with the request; pass one with the first byte of its line (SCM_RIGHTS), not through a "
                    + "relay")
        }
    }

    private func filePlace() throws(WireError) -> FilePlace {
        guard openFiles.count < Self.maxFiles else {
            loop.traffic.refused.requests += 1
            throw WireError(
                .limitExceeded,
                "\(Self.maxFiles) files of this connection are being read; send it again when one of these is answered")
        }
        if let refusal = usage.refusalOfFile(limits) {
            loop.traffic.refused.requests += 1
            throw refusal
        }
        return FilePlace(among: openFiles, of: usage)
    }
}

/// How many files of a connection are being read.
final class OpenFiles: Sendable {
    private let number = Atomic<Int>(0)

    var count: Int { number.load(ordering: .relaxed) }

    fileprivate func add(_ change: Int) { number.add(change, ordering: .relaxed) }
}

/// The place of an open file among those of its connection and its user.
private final class FilePlace: Sendable {
    private let files: OpenFiles
    private let usage: UserUsage
    private let isTaken = Atomic(true)

    init(among files: OpenFiles, of usage: UserUsage) {
        (self.files, self.usage) = (files, usage)
        files.add(1)
        usage.addFile()
    }

    deinit { end() }

    func end() {
        guard isTaken.exchange(false, ordering: .relaxed) else { return }
        files.add(-1)
        usage.removeFile()
    }
}
