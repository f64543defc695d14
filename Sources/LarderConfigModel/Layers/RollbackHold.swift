import LarderJSON

/// Which document ends the hold of a rollback. A release, a forced refresh and a forced push end every hold.
package enum HoldRule: String, Sendable, CaseIterable {
    /// A document of the source or a push that is newer than the refused one. If the version of the refused document cannot be
    /// ordered, any other document counts as newer.
    case untilNewer
    /// None.
    case untilReleased
}

/// What a rollback keeps in the place of documents that differ from those of the revision it went back to. The live
/// documents go on being recorded in ``Layers``, and show again when the hold ends.
package struct RollbackHold: Sendable {
    /// A layer as it was then; nil where there was none.
    package struct Layer<Content: Sendable>: Sendable {
        package var content: Content?

        package init(content: Content?) { self.content = content }
    }

    /// The revision that was gone back to.
    package var revision: Int
    /// When, in milliseconds since 1970.
    package var since: Int
    package var rule = HoldRule.untilReleased
    /// The client that asked for the rollback; nil if an older version of this program recorded the hold.
    package var peer: Peer?
    /// The document that was current then and is thereby refused; nil where there was none.
    package var refused: Refused?
    /// What is shown instead of layers of files; without those that are shown themselves.
    package var files: [FileLayer: Layer<FileDocument>] = [:]
    /// What is shown instead of the remote layer; nil where that is shown itself.
    package var remote: Layer<RemoteDocument>?

    /// What tells a remote document from others. It is kept by itself, because after a crash the live document may be
    /// another one.
    package struct Refused: Sendable, Equatable {
        package var version: UpstreamVersion?
        /// Of its text, the experiments that it declares included; as ``ConfigSnapshot/digest``.
        package var digest: String
        package var origin: String

        package init(version: UpstreamVersion?, digest: String, origin: String) {
            self.version = version
            self.digest = digest
            self.origin = origin
        }
    }

    package init(revision: Int, since: Int, peer: Peer? = nil, refused: Refused? = nil) {
        self.revision = revision
        self.since = since
        self.peer = peer
        self.refused = refused
    }

    /// Whether nothing is held.
    package var isEmpty: Bool { files.isEmpty && remote == nil }

    /// The rule of a rollback that names none: only if the source's versions can be ordered is a later document known to be
    /// newer than the refused one.
    package var defaultRule: HoldRule { unorderedReason == nil ? .untilNewer : .untilReleased }

    /// Why no document is known to be newer than what is refused; nil if versions show it.
    private var unorderedReason: String? {
        if !files.isEmpty { return "files have no versions, so a later change is not known to be newer" }
        guard let version = refused?.version else {
            return "the refused document has no version, so a later one is not known to be newer"
        }
        // If the source had no document at the revision that is shown, there is no other version to compare.
        let shown = remote?.content.map(\.version) ?? version
        if let shown, version.isOrdered(with: shown) { return nil }
        return "version \"\(version)\" has no order, so a later one is not known to be newer"
    }

    /// Why the hold has its rule, for people.
    package var reason: String {
        if rule != defaultRule { return "the rollback asked for it" }
        return unorderedReason ?? "the source's versions can be ordered"
    }

    /// The layers that are held, lowest first.
    package var layers: [ConfigLayer] { ConfigLayer.allCases.filter(holds) }

    /// Whether a layer of documents is shown as it was then.
    package func holds(_ layer: ConfigLayer) -> Bool {
        switch layer {
        case .defaults: files[.defaults] != nil
        case .host: files[.host] != nil
        case .remote: remote != nil
        // The overlays are live, but those that a document declares which is held.
        case .experiment, .override: false
        }
    }
}

extension RollbackHold.Refused {
    package init(_ remote: RemoteDocument) {
        var all: JSONValue = remote.experiments.map { [remote.document, $0.list] } ?? remote.document
        if let removals = remote.removals { all = [removals, all] }
        self.init(version: remote.version, digest: SnapshotDigest.text(of: all), origin: remote.origin)
    }
}
