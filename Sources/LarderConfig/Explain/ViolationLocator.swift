import LarderConfigModel
import LarderConfigSources
import LarderJSON
import LarderPlatform

/// Finds the file and line of values that violate the schema.
struct ViolationLocator: Sendable {
    let configuration: NamespaceConfiguration
    let blocking: BlockingWork

    /// Adds the file and line of each value that comes from a file. Reads the files.
    func located(_ problems: [SchemaProblem]) async -> [SchemaProblem] {
        if problems.allSatisfy({ $0.layer == nil || $0.layer == .override }) { return problems }
        return await blocking.run { () -> [SchemaProblem] in problems.map(configuration.located) }
    }
}

extension NamespaceConfiguration {
    /// Adds the file and line of the value if it comes from a file. Blocks on disk I/O.
    func located(_ problem: SchemaProblem) -> SchemaProblem {
        var problem = problem
        let path = problem.path.segments
        var found: SourceLocation?
        switch problem.layer {
        case .defaults, .host:
            guard let layer = problem.layer?.fileLayer else { break }
            problem.location = location(of: layer)
            found = sourceLocation(of: path, in: layer, effect: nil)
        case .remote: found = sourceLocation(ofRemote: path, from: problem.location, effect: nil)
        case .experiment: problem.location = problem.location ?? settingsPath
        case .override, nil: break
        }
        if let found { (problem.location, problem.line) = (found.file, found.line) }
        return problem
    }

    /// Searches the files of a layer for the value at a path. Blocks on disk I/O.
    /// - Parameter effect: the known effect of the layer at the path; nil for an unknown effect
    func sourceLocation(of path: [String], in layer: FileLayer, effect: PatchEffect?) -> SourceLocation? {
        guard let location = location(of: layer) else { return nil }
        return SourceLocation.find(path, in: location, maximumBytes: maximumBytes, effect: effect) {
            FileLayerReader.merge($0, keepsNulls: keepsNulls(layer))
        }
    }

    /// Searches the file of the remote source for the value at a path. Blocks on disk I/O.
    /// - Parameters:
    ///   - origin: the location from which the document was read; nil for a pushed document
    ///   - effect: the known effect of the document at the path; nil for an unknown effect
    func sourceLocation(ofRemote path: [String], from origin: String?, effect: PatchEffect?) -> SourceLocation? {
        guard case .file(let file) = remote, origin.isSpelled(as: file.path) else { return nil }
        return SourceLocation.find(path, in: file.path, maximumBytes: file.maximumBytes, effect: effect) {
            FileLayerReader.merge($0, keepsNulls: true)
        }
    }
}
