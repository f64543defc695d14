import LarderConfigModel
import LarderConfigSources
import LarderHTTPSemantics

/// The parts of the store that the namespace's sources and files use: state to read, and reports for the status.
extension ConfigStore {
    /// The layers as they are resolved, with held documents instead of live ones.
    var shownLayers: Layers { core.layers.shown }
    /// Whether there is a document from the remote source or a push.
    var hasRemoteDocument: Bool { core.layers.hasRemote }
    /// Whether invalid experiments of the remote document are left out. If so, a fetch may return a corrected document.
    var lacksExperiments: Bool { core.layers.experiment.problem != nil }

    /// The validator of the remote document; nil if the document is from another source, or was pushed.
    /// - Parameter source: the identity of the source
    func validator(ofSource source: String) -> Validator? { core.layers.validator(ofSource: source) }

    /// - Parameter isLongPoll: whether the request is a long poll, which does not make the namespace `refreshing`
    func refreshBegan(isLongPoll: Bool) { report { $0.refreshBegan(isLongPoll: isLongPoll, now: $1) } }

    /// Records, before the result of a refresh, whether the source sends changes.
    func follows(_ following: SourceFollowing) { report { status, _ in status.follows(following) } }

    /// Records that the source has confirmed the current document.
    func refreshConfirmed() {
        committer.forgetRefusedDocument()
        report { $0.remoteAnswered(changed: false, now: $1) }
    }

    func refreshFailed(_ error: ConfigError) {
        report { $0.failed(error, documentSince: core.layers.remote?.updatedAt, now: $1) }
    }

    /// Records that a response was refused because it is not a valid configuration.
    func documentRefused(_ error: ConfigError) { report { $0.refused(nil, error, now: $1) } }

    func refreshCancelled() { report { status, _ in status.refreshCancelled() } }

    func nextAttempt(at time: Int?) { report { status, _ in status.nextAttemptAt = time } }

    func filesFailed(_ layer: FileLayer, _ message: String) {
        report { $0.filesRead(layer, problem: message, now: $1) }
    }

    /// Records why changes of a layer's files are not watched; nil if they are.
    func watching(_ layer: ConfigLayer, problem: String?) {
        guard committer.status.current.watchProblems[layer] != problem else { return }
        report { status, _ in status.watchProblems[layer] = problem }
    }

    /// Records why the copy of the schema could not be written; nil if it was written, or if there is none to write.
    /// - Returns: whether the last attempt had another result
    func schemaSaved(problem: ConfigError?) -> Bool {
        let failed = committer.status.current.hasStorageProblem(.schema)
        if let problem {
            report { $0.storageFailed(.schema, problem, now: $1) }
        } else if failed {
            report { status, _ in status.storageWorked(.schema) }
        }
        return failed == (problem == nil)
    }

    /// Changes the status of the namespace.
    func report(_ change: (inout NamespaceStatus, _ now: Int) -> Void) { committer.report(change) }
}
