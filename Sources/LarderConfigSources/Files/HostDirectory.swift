import CLinuxShims
import Glibc
import LarderConfigModel
package import LarderJSON
import Synchronization
import LarderPlatform

/// The directory of the administrator's files: the `host` layer.
///
/// Unlike a remote source it need not be there: until somebody makes it, the layer is empty. Once it was there and is
/// gone, that is an error, because who moves it away for a moment, or does not mount it, does not want to empty the layer.
package final class HostDirectory: Sendable {
    package let path: String
    /// Whether somebody named it. One that is only taken for granted may be missing together with what it is in.
    let isNamed: Bool
    private let files: DocumentDirectory
    private let wasThere: Atomic<Bool>

    /// Makes a reader of a directory. The directory need not exist yet.
    ///
    /// - Parameter wasThere: whether it is known to have been there already
    package init(
        path: String, isNamed: Bool = true, wasThere: Bool = false, maximumBytes: Int = 16 << 20,
        maximumFiles: Int = 1024
    ) {
        self.path = path
        self.isNamed = isNamed
        self.wasThere = Atomic(wasThere)
        files = DocumentDirectory(path: path, maximumBytes: maximumBytes, maximumFiles: maximumFiles)
    }

    /// All files merged as they were at one moment. Blocks until the disk has answered.
    ///
    /// - Parameter keepsNulls: whether a null stays, because there is a layer below that it hides something of
    /// - Returns: objects, empty if the directory was never there
    /// - Throws: ``FileReadError``
    package func read(keepsNulls: Bool = false) throws(FileReadError) -> ComposedPatch {
        let reading: DocumentFiles
        do {
            reading = try files.read()
        } catch  where error.path == path && error.errno == ENOENT {
            return try missing()
        }
        wasThere.store(true, ordering: .relaxed)
        return FileLayerReader.merge(try reading.documents(), keepsNulls: keepsNulls)
    }

    /// Only a directory that is really not there is empty. No permission to look, a dangling link, or a mount that is
    /// missing as a whole say nothing about what the administrator wants.
    private func missing() throws(FileReadError) -> ComposedPatch {
        if fileStatus(path.cPath, followingLinks: false) != nil {
            throw FileReadError(.notFound, path, "the symbolic link leads nowhere; repair or remove it", errno: ENOENT)
        }
        if wasThere.load(ordering: .relaxed) {
            throw FileReadError(
                .notFound, path, "the directory was there and is gone; bring it back, empty if nothing is to be in it",
                errno: ENOENT)
        }
        if !isNamed { return .empty }
        // A trailing slash is no name of its own.
        var parent = path[...]
        while parent.count > 1, parent.last == "/" { parent.removeLast() }
        parent = parent.lastIndex(of: "/").map { parent[...$0] } ?? "."
        guard fileStatus(String(parent).cPath)?.fileType == S_IFDIR else {
            throw FileReadError(
                .parentMissing, path, "neither it nor the directory above it exists; correct the path or mount it",
                errno: ENOENT)
        }
        return .empty
    }
}
