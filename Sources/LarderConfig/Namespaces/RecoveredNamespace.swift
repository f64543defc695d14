import LarderConfigModel
import LarderConfigSources
import LarderConfigStorage
import Glibc
import LarderPlatform

/// A namespace as read from disk at the start of the agent: its last known good state, with the current content of its
/// file layers.
struct RecoveredNamespace: Sendable {
    let configuration: NamespaceConfiguration
    let archive: ConfigArchive
    private(set) var state: RecoveredState
    private(set) var status: NamespaceStatus
    let files: [FileLayer: FileLayerReader]
    /// The layers of the last known good state.
    let lastGood: Layers
    let savedSchema: SavedSchema
    /// The schema; nil for none. If its file cannot be used, this is the saved one.
    private(set) var schema: NamespaceSchema?

    /// Reads the state and the files. Blocks on disk I/O.
    /// - Throws: ``FileError`` if the state directory cannot be used. A layer whose files cannot be read keeps its last
    ///   content, and the status reports the problem.
    init(_ configuration: NamespaceConfiguration, environment: NamespaceEnvironment) throws(FileError) {
        self.configuration = configuration
        let directory = environment.stateDirectory + "/config/" + configuration.name
        do throws(UnsafeDirectory) {
            try UnsafeDirectory.check(directory, followsLink: false)
        } catch {
            throw FileError("open", directory, errno: EPERM, reason: error.description)
        }
        archive = ConfigArchive(
            namespace: configuration.name, epoch: environment.epoch,
            directory: directory, files: environment.files, logger: environment.logger)
        archive.generations.configure(configuration.history)
        let state = try archive.restore()
        self.state = state
        status = configuration.initialStatus
        files = Dictionary(
            uniqueKeysWithValues: FileLayer.allCases.map {
                ($0, configuration.reader(of: $0, lastContent: state.layers[$0]?.document))
            })
        lastGood = state.layers
        savedSchema = SavedSchema(
            namespace: configuration.name, directory: directory, files: environment.files, logger: environment.logger)
        readSchema(now: environment.wallClock.now)
        for reader in files.values { read(reader, now: environment.wallClock.now) }
        if configuration.remote == nil, let remote = state.layers.remote, remote.origin != SourceOrigin.push {
            self.state.layers.dropRemote()
        }
    }

    private mutating func readSchema(now: Int) {
        guard let settings = configuration.schema else { return savedSchema.remove() }
        let file = SchemaFile(settings, secrets: configuration.secrets, maximumBytes: configuration.maximumBytes)
        do throws(SchemaFileError) {
            let schema = try file.read().schema.get()
            if let problem = savedSchema.save(schema) {
                status.storageFailed(.schema, problem, now: now)
                savedSchema.log(problem)
            }
            self.schema = schema
        } catch {
            status.schemaFileProblem = error.description
            schema = savedSchema.load(for: file)
        }
    }

    private mutating func read(_ reader: FileLayerReader, now: Int) {
        let layer = reader.layer
        if reader.path == nil {
            state.layers[layer] = nil
            return
        }
        do throws(FileReadError) {
            let content = try reader.read()
            if state.layers[layer]?.content != content {
                state.layers[layer] = FileDocument(content, updatedAt: now)
            }
        } catch {
            status.filesRead(layer, problem: error.description, now: now)
        }
    }
}
