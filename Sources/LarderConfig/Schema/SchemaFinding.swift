import LarderConfigModel
import LarderConfigSources
import LarderJSON
import LarderPlatform

/// A schema that cannot be used, or a violation of the schema by files of the layers.
package struct SchemaFinding: Sendable, Hashable {
    package enum Kind: Sendable {
        /// The schema cannot be used, or it rejects the files.
        case error
        /// The agent publishes the files nevertheless, or an override could make them valid.
        case warning
        /// This user is not allowed to read the schema. The agent's user may be.
        case unchecked
    }

    package let kind: Kind
    /// One line that names the file.
    package let text: String
}

extension NamespaceConfiguration {
    /// Checks the schema, and the files of the layers with the schema. Blocks on disk I/O.
    ///
    /// The files are not checked if one of them cannot be read; ``examineFiles()`` reports that. If a source has further
    /// members, which are unknown here, only violations that these members cannot cure are reported.
    package func examineSchema() -> [SchemaFinding] {
        guard let schema else { return [] }
        let file = SchemaFile(schema, secrets: secrets, maximumBytes: maximumBytes)
        switch file.read().schema {
        case .failure(let error):
            return [SchemaFinding(kind: isAccessDenied(schema.path) ? .unchecked : .error, text: error.description)]
        case .success(let compiled):
            guard let (layers, isComplete) = fileLayers() else { return [] }
            let value = layers.resolved()
            return compiled.problems(of: value, in: layers).compactMap { problem in
                // Without a layer, no file contains the value.
                guard problem.layer != nil else { return nil }
                let isCurable = value.value(at: problem.path)?.kind == .object && Self.isCurable(problem.keyword)
                if isCurable, !isComplete { return nil }
                return SchemaFinding(
                    kind: isCurable || !compiled.rejects ? .warning : .error, text: Self.line(located(problem)))
            }
        }
    }

    /// The layers that consist of files, and whether they are all layers but the overrides. Nil if a file cannot be
    /// read.
    private func fileLayers() -> (Layers, isComplete: Bool)? {
        do throws(FileReadError) {
            var layers = Layers()
            for layer in FileLayer.allCases {
                layers[layer] = FileDocument(try reader(of: layer, lastContent: nil).read(), updatedAt: 0)
            }
            var isComplete = remote == nil
            if case .file(let file) = remote {
                let documents = try DocumentFiles.read(at: file.path, maximumBytes: file.maximumBytes).documents()
                let content = ComposedPatch(documents)
                layers.remote = RemoteDocument(
                    removals: content.removals, document: content.patch, origin: file.path, updatedAt: 0)
                isComplete = true
            }
            layers.applyRulesLeniently(LayerRules(locks: LockedPaths(locks)), now: 0)
            return (layers, isComplete)
        } catch {
            return nil
        }
    }

    /// Whether another member of an object can end its violation of a keyword.
    private static func isCurable(_ keyword: String) -> Bool {
        [
            "required", "dependentRequired", "dependentSchemas", "dependencies", "minProperties", "anyOf", "oneOf",
            "not",
            "if", "then", "else",
        ].contains(keyword)
    }

    /// `FILE:LINE: PATH: REASON`, in the format of compilers.
    private static func line(_ problem: SchemaProblem) -> String {
        let place = [problem.location, problem.line.map(String.init)].compactMap(\.self).joined(separator: ":")
        let path = problem.path.isRoot ? "" : "\(problem.path): "
        return (place.isEmpty ? "" : "\(place): ") + path + "the schema rejects this: " + problem.message
    }
}
