import ConfigTestSupport
import LarderJSON
import LarderPlatform
import TestSupport
import Testing

@testable import LarderConfigModel
@testable import LarderConfigStorage
@testable import LarderConfigSources
@testable import LarderConfig

@Suite("Several documents per layer", .timeLimit(.minutes(15)))
struct LayerStackTests {
    @Test("the files of a directory are merged in name order", arguments: [FileLayer.host.layer, .remote])
    func replacement(layer: ConfigLayer) async throws {
        var stack = try Stack()
        stack.documents[.defaults] = [["o": ["a": 1], "p": ["a": 1]]]
        stack.documents[layer] = [["o": 5, "p": .null], ["o": ["b": 2], "p": ["b": 2]]]
        let layers = try await stack.layers()
        #expect(layers.resolved() == ["o": ["b": 2], "p": ["b": 2]])
        // The first file hides the `a` of lower layers, so an explanation reports that this layer removes `a`.
        #expect(layers.effect(of: layer, at: ["o", "a"]) == .removed)
        #expect(layers.effect(of: layer, at: ["o"]) == .value(["b": 2]))
    }

    @Test("random documents in all layers resolve as RFC 7396 patches in order, also after a restart")
    func property() async throws {
        var generator = SeededGenerator()
        for _ in 0..<150 {
            var stack = try Stack()
            for layer in ConfigLayer.allCases where layer != .override {
                stack.documents[layer] = (0..<Int.random(in: 0...3, using: &generator)).map { _ in
                    .randomPatch(depth: 3, using: &generator)
                }
            }
            var layers = try await stack.layers()
            let paths = [["a"], ["b", "a"], ["c", "b", "a"], ["b", "c"]].shuffled(using: &generator).prefix(2)
            var expected = stack.documents.sorted { $0.key.height < $1.key.height }.flatMap(\.value)
            for path in paths {
                let value = JSONValue.randomPatch(depth: 2, using: &generator)
                layers.override.set(.init(path: path, value: value, setAt: 0))
                expected.append(path.reversed().reduce(value) { .object([($1, $0)]) })
            }
            let resolved = expected.reduce(.emptyObject) { MergePatch.apply($1, to: $0) }
            #expect(layers.resolved() == resolved, "\(expected), seed \(generator.seed)")
            let generation = Generation(
                revision: 3, digest: SnapshotDigest(known: "d"), publishedAt: 4, journalSequence: 2, released: 0,
                layers: layers)
            let read = try GenerationFile.decode(GenerationFile.encode(generation, epoch: "e", namespace: "n"))
            #expect(read.layers.resolved() == resolved, "seed \(generator.seed)")
        }
    }

    @Test("the digest of a directory differs from the one that version 0.1 computed, so the files are read again")
    func stamp() {
        let files = [(name: "1.json", bytes: Array("{}".utf8)), (name: "2.json", bytes: Array("{}".utf8))]
        let old = "sha256:\(Self.stampOfVersion01)"
        #expect(ContentDigest(of: files).description != old)
    }

    private static let stampOfVersion01 = "10b941feacb873e8c58e50719d0999edeeee3e2bb13409e7576b81992d89baa5"
}

/// The documents of each layer. ``layers()`` writes those of the file layers and of the remote layer to files.
private struct Stack {
    var documents: [ConfigLayer: [JSONValue]] = [:]
    private let directory: ScratchDirectory

    init() throws { directory = try ScratchDirectory() }

    /// Writes the documents to files, and reads them as a namespace reads its layers.
    func layers() async throws -> Layers {
        for layer in [ConfigLayer.defaults, .host, .remote] {
            try directory.makeDirectory("\(layer)")
            // A directory of defaults or of a source needs at least one file.
            for (number, document) in (documents[layer] ?? [.emptyObject]).enumerated() {
                try directory.write(document.compactText, to: "\(layer)/\(number).json")
            }
            if documents[layer] == [] { try directory.write("{}", to: "\(layer)/0.json") }
        }
        let configuration = NamespaceConfiguration(
            name: "n", defaultsPath: directory.at("defaults"), hostDirectory: directory.at("host"))
        var layers = Layers()
        for layer in FileLayer.allCases {
            layers[layer] = FileDocument(try configuration.reader(of: layer, lastContent: nil).read(), updatedAt: 0)
        }
        let source = FileSource(
            configuration: .init(path: directory.at("remote")), watcher: FileWatcher(),
            blocking: BlockingThreadPool(SharedThreads.pool))
        if case .document(let document) = try await source.fetch(ifChangedFrom: nil, reason: .requested) {
            let change = LayerChange.remote(document, origin: source.location, force: false, isPush: false)
            _ = try change.apply(
                to: &layers,
                ChangeContext(limits: DocumentLimits(maximumBytes: 1 << 20), now: 0, recordsOperations: false),
                resolved: .emptyObject)
        }
        layers.experiment.overlays = (documents[.experiment] ?? []).enumerated().map {
            .init(name: "\($0.offset)", values: $0.element, isRemote: false)
        }
        return layers
    }
}

extension ConfigLayer {
    fileprivate var height: Int { Self.allCases.firstIndex(of: self) ?? 0 }
}

extension JSONValue {
    /// Returns a random object. There are few possible names, so that patches overlap.
    fileprivate static func randomPatch(depth: Int, using generator: inout SeededGenerator) -> JSONValue {
        let names = ["a", "b", "c"].shuffled(using: &generator).prefix(Int.random(in: 0...3, using: &generator))
        return .object(names.map { ($0, randomValue(depth: depth - 1, using: &generator)) })
    }

    private static func randomValue(depth: Int, using generator: inout SeededGenerator) -> JSONValue {
        switch Int.random(in: 0..<6, using: &generator) {
        case 0: .null
        case 1: .int(Int.random(in: 0...9, using: &generator))
        default: depth == 0 ? 1 : randomPatch(depth: depth, using: &generator)
        }
    }
}
