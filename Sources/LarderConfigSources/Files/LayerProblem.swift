import Glibc
import LarderPlatform

/// An error in a file of a layer.
package struct LayerProblem: Sendable, Hashable {
    /// The file, the place and the reason.
    package let error: FileReadError
    /// Whether the error depends on the host and the user, not on the content of the file: the path of the settings does not exist,
    /// or the user may not read it.
    package let isCircumstance: Bool

    init(_ error: FileReadError, at location: String) {
        self.error = error
        let isAbsent = error.path == location && [.notFound, .parentMissing].contains(error.code)
        isCircumstance = isAbsent || error.code == .permissionDenied
    }

    /// Reads a file or a directory that must exist. Blocks until the disk has answered.
    /// - Returns: One problem for each file. For a file that is not JSON it has the position of the first error.
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

    /// Reads the directory of the administrator's files. Blocks until the disk has answered.
    /// - Parameter isNamed: Whether the settings name it. The default directory may be missing.
    /// - Returns: One problem for each file.
    package static func found(inHostDirectory path: String, isNamed: Bool) -> [LayerProblem] {
        DocumentDirectory(path: path).problems()
            .filter { isNamed || $0.path != path || $0.errno != ENOENT }
            .map { LayerProblem($0, at: path) }
    }
}
