import CLinuxShims
import Glibc
import LarderPlatform

/// An error in a file of a layer.
public struct LayerProblem: Sendable, Hashable {
    /// The file, the place and the reason.
    public let error: FileReadError
    /// Whether it concerns this host, user and moment, not what the file says: what the settings name is not there, or this
    /// user may not read it.
    public let isCircumstance: Bool

    init(_ error: FileReadError, at location: String) {
        self.error = error
        let isAbsent = error.path == location && [.notFound, .parentMissing].contains(error.code)
        isCircumstance = isAbsent || error.code == .permissionDenied
    }
}

extension NamespaceConfiguration {
    /// Reads the files of the layers: the defaults, the administrator's files, and a remote source that is a file. Blocks until
    /// the disk has answered.
    ///
    /// - Returns: a problem for each file; for one that is not JSON the first place at which it is not.
    public func examineFiles() -> [LayerProblem] {
        var problems: [LayerProblem] = []
        if let defaultsPath { problems += Self.problems(at: defaultsPath, maximumBytes) }
        if let hostDirectory {
            let found = DocumentDirectory(path: hostDirectory).problems()
            // Without a directory the layer is empty, unless the settings name the directory.
            problems += found.filter { isHostDirectoryNamed || $0.path != hostDirectory || $0.errno != ENOENT }
                .map { LayerProblem($0, at: hostDirectory) }
        }
        if case .file(let file) = remote { problems += Self.problems(at: file.path, file.maximumBytes) }
        return problems
    }

    private static func problems(at path: String, _ maximumBytes: Int) -> [LayerProblem] {
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
}
