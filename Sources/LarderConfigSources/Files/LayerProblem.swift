import CLinuxShims
import Glibc
import LarderPlatform

/// An error in a file of a layer.
package struct LayerProblem: Sendable, Hashable {
    /// The file, the place and the reason.
    package let error: FileReadError
    /// Whether it concerns this host, user and moment, not what the file says: what the settings name is not there, or this
    /// user may not read it.
    package let isCircumstance: Bool

    init(_ error: FileReadError, at location: String) {
        self.error = error
        let isAbsent = error.path == location && [.notFound, .parentMissing].contains(error.code)
        isCircumstance = isAbsent || error.code == .permissionDenied
    }

    /// Reads a file or a directory that must be there. Blocks until the disk has answered.
    /// - Returns: a problem for each file; for one that is not JSON the first place at which it is not.
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
    /// - Parameter isNamed: whether the settings name it. Otherwise it may be missing, and the layer is empty then.
    /// - Returns: as ``found(at:maximumBytes:)``
    package static func found(inHostDirectory path: String, isNamed: Bool) -> [LayerProblem] {
        DocumentDirectory(path: path).problems()
            .filter { isNamed || $0.path != path || $0.errno != ENOENT }
            .map { LayerProblem($0, at: path) }
    }
}
