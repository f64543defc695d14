import Glibc
package import LarderPlatform

/// An error in a file of a layer.
package struct LayerProblem: Sendable, Hashable {
    /// The file, the position and the reason.
    package let error: FileReadError
    /// Whether the error depends on the host and the user of this process instead of the content of the file: the file
    /// or directory of the layer does not exist, or this user is not allowed to read it.
    package let isCircumstance: Bool

    init(_ error: FileReadError, at location: String) {
        self.error = error
        let isAbsent = error.path == location && [.notFound, .parentMissing].contains(error.code)
        isCircumstance = isAbsent || error.code == .permissionDenied
    }

    /// Checks the file or directory of a layer, which must exist. Blocks on disk I/O.
    /// - Returns: at most one problem per file, with the position of the first error if the file cannot be parsed
    package static func found(at path: String, maximumBytes: Int) -> [LayerProblem] {
        if fileStatus(path.cPath)?.fileType == S_IFDIR {
            let problems = DocumentDirectory(path: path, maximumBytes: maximumBytes).problems()
            if !problems.isEmpty { return problems.map { LayerProblem($0, at: path) } }
        }
        do throws(FileReadError) {
            _ = try DocumentFiles.read(at: path, maximumBytes: maximumBytes).documents()
            return []
        } catch {
            return [LayerProblem(error, at: path)]
        }
    }

    /// The files in a directory of layer files that are not read because of their names, although they are probably meant
    /// to be. Blocks on disk I/O.
    package static func ignoredFiles(in directory: String) -> [String] {
        DocumentDirectory(path: directory).ignoredFiles()
    }

    /// Checks the host layer directory. Blocks on disk I/O.
    /// - Parameter isNamed: whether the settings name the directory. If not, it is the default directory, which may be
    ///   missing.
    /// - Returns: at most one problem per file
    package static func found(
        inHostDirectory path: String, isNamed: Bool, maximumBytes: Int
    ) -> [LayerProblem] {
        DocumentDirectory(path: path, maximumBytes: maximumBytes).problems()
            .filter { isNamed || $0.path != path || $0.errno != ENOENT }
            .map { LayerProblem($0, at: path) }
    }
}
