import Glibc
import LarderConfigModel
package import LarderJSON
import Synchronization
import LarderPlatform

/// The directory of the administrator's files: the `host` layer.
///
/// If the directory has never existed, the layer is empty. If it existed before and is missing now, that is an error,
/// because it may be unmounted or about to be replaced. In that case the layer must not become empty.
package final class HostDirectory: Sendable {
    package let path: String
    /// Whether the settings name the directory. Otherwise it is the default directory, whose parent may be missing,
    /// too.
    let isNamed: Bool
    private let files: DocumentDirectory
    private let wasThere: Atomic<Bool>

    /// The directory need not exist yet.
    ///
    /// - Parameter wasThere: whether the directory is known to have existed
    package init(
        path: String, isNamed: Bool = true, wasThere: Bool = false, maximumBytes: Int = 16 << 20,
        maximumFiles: Int = 1024
    ) {
        self.path = path
        self.isNamed = isNamed
        self.wasThere = Atomic(wasThere)
        files = DocumentDirectory(path: path, maximumBytes: maximumBytes, maximumFiles: maximumFiles)
    }

    /// Reads and merges all files in a consistent state. Blocks on disk I/O.
    ///
    /// - Parameters:
    ///   - keepsNulls: whether nulls are kept, to remove members of a lower layer
    ///   - isCancelled: returns whether the content is not needed any more
    /// - Returns: an empty patch if the directory has never existed
    /// - Throws: ``FileReadError``
    package func read(
        keepsNulls: Bool = false, unless isCancelled: @escaping () -> Bool = { false }
    ) throws(FileReadError) -> ComposedPatch {
        let reading: DocumentFiles
        do {
            reading = try files.read()
        } catch  where error.path == path && error.errno == ENOENT {
            return try missing()
        }
        wasThere.store(true, ordering: .relaxed)
        return FileLayerReader.merge(try reading.documents(unless: isCancelled), keepsNulls: keepsNulls)
    }

    /// Returns the content of the layer if the directory is missing: an empty patch. Throws if a symbolic link is
    /// dangling or a mount may be missing, because the administrator does not intend an empty layer then.
    private func missing() throws(FileReadError) -> ComposedPatch {
        if fileStatus(path.cPath, followingLinks: false) != nil {
            throw FileReadError(
                .notFound, path, "the target of the symbolic link does not exist; repair or remove the link",
                errno: ENOENT)
        }
        if wasThere.load(ordering: .relaxed) {
            throw FileReadError(
                .notFound, path, "the directory existed before and is missing; restore it, even if it is to be empty",
                errno: ENOENT)
        }
        if !isNamed { return .empty }
        // Trailing slashes are removed first, because they are not part of the name of the directory.
        var parent = path[...]
        while parent.count > 1, parent.last == "/" { parent.removeLast() }
        parent = parent.lastIndex(of: "/").map { parent[...$0] } ?? "."
        guard fileStatus(String(parent).cPath)?.fileType == S_IFDIR else {
            throw FileReadError(
                .parentMissing, path, "neither it nor its parent directory exists; correct the path or mount it",
                errno: ENOENT)
        }
        return .empty
    }
}
