import LarderJSON

@testable import LarderConfigModel

/// What happened in a scenario, and whether it may. Only the simulation's thread touches it.
final class ScenarioLedger {
    /// A document of the remote layer, from a fetch or a push.
    struct Document {
        let version: Int
        /// What the source called this state of its content; nil for a push.
        var serial: Int?
        /// Whether it may replace a newer version.
        let isForced: Bool
        /// When the fetch or the push was begun.
        let began: Int
        /// When it was published.
        var published = 0
        /// Whether whoever asked was told that nothing has changed.
        var isRefused = false
    }

    /// What went wrong, the first things only.
    private(set) var violations: [String] = []
    /// How many commands and edits there were.
    private(set) var counts: [String: Int] = [:]
    private(set) var documents: [String: Document] = [:]
    /// Values that were set by a command of which it was said that it changed nothing.
    private var refusedValues: Set<Int> = []

    private var moment = 0
    private var lastID = 0
    private var revision = 0
    private var snapshots: [Int: JSONValue] = [:]
    /// The documents and values that were ever in a snapshot.
    private var published: Set<String> = []
    private var publishedValues: Set<Int> = []
    /// The answers to forced refreshes that somebody got.
    private var claimed: Set<String> = []
    private var remote: String?
    private var remoteSince = 0
    /// The versions held one after the other, each with the moment at which it was replaced.
    private var heldVersions: [(version: Int, until: Int)] = []
    private var host = 0
    /// The fetch that is under way.
    private(set) var fetch: String?

    func violated(_ what: String) { if violations.count < 5 { violations.append(what) } }

    func expect(_ isRight: Bool, _ what: @autoclosure () -> String) { if !isRight { violated(what()) } }

    func count(_ what: String) { counts[what, default: 0] += 1 }

    /// A moment later than all before.
    func now() -> Int {
        moment += 1
        return moment
    }

    func newID(_ kind: String) -> String { "\(kind)\(newNumber())" }

    func newNumber() -> Int {
        lastID += 1
        return lastID
    }

    // MARK: Snapshots

    /// Looks at what is published now; called after each job, so that nothing published escapes.
    func observe(_ snapshot: ConfigSnapshot) {
        if snapshot.revision == revision { return }
        expect(snapshot.revision > revision, "revision \(snapshot.revision) after \(revision)")
        revision = snapshot.revision
        snapshots[revision] = snapshot.value
        let newHost = snapshot.value["host"]?.int ?? 0
        expect(newHost >= host, "host reading \(newHost) after \(host)")
        host = newHost
        for (key, value) in snapshot.value["set"]?.members.map({ ($0.name, $0.value) }) ?? [] {
            expect(!refusedValues.contains(value.int ?? 0), "set.\(key) is \(value), which changed nothing")
            publishedValues.insert(value.int ?? 0)
        }
        let id = snapshot.value["remote"]?.string
        if id != remote { remoteChanged(to: id) }
    }

    private func remoteChanged(to id: String?) {
        guard let id, let new = documents[id] else { return violated("\(id ?? "nothing") replaced \(remote ?? "")") }
        published.insert(id)
        expect(!new.isRefused, "\(id) is published although it changed nothing")
        expect(fetch == nil, "\(id) was applied while the fetch \(fetch ?? "") was under way")
        if let remote, let old = documents[remote] {
            expect(
                new.isForced || new.version >= old.version,
                "\(id), version \(new.version), replaced \(remote), version \(old.version)")
            heldVersions.append((old.version, now()))
        }
        if new.serial != nil {
            expect(new.began > remoteSince, "\(id) was applied after \(remote ?? ""), which came while it was fetched")
        }
        remote = id
        remoteSince = now()
        documents[id]?.published = remoteSince
    }

    /// The remote document in a revision.
    func remote(in revision: Int) -> String? { snapshots[revision]?["remote"]?.string }

    func value(_ path: JSONPath, in revision: Int) -> JSONValue? { snapshots[revision]?.value(at: path) }

    /// The document held now.
    var held: Document? { remote.flatMap { documents[$0] } }

    /// Whether a version newer than this one was held at some time since a moment.
    func wasOutdated(_ version: Int, since moment: Int) -> Bool {
        if let held, held.version > version { return true }
        return heldVersions.contains { $0.until >= moment && $0.version > version }
    }

    // MARK: Commands

    func push(_ id: String, version: Int, isForced: Bool) {
        documents[id] = Document(version: version, isForced: isForced, began: now())
    }

    /// A push changed nothing, or so it was said.
    func refused(_ id: String) {
        documents[id]?.isRefused = true
        expect(remote != id, "\(id) changed nothing, it was said, and is held")
        expect(!published.contains(id), "\(id) was published and then denied")
    }

    /// A `set` changed nothing, or so it was said.
    func refused(_ value: Int, at path: JSONPath) {
        refusedValues.insert(value)
        expect(!publishedValues.contains(value), "\(path) was set to \(value) and that then denied")
    }

    // MARK: Fetches

    /// - Parameter validator: the serial of the document that the agent says it holds
    func beganFetch(_ id: String, validator: Int?, isForced: Bool) -> Int {
        expect(fetch == nil, "\(id) was begun while \(fetch ?? "") was under way")
        expect(validator == nil || validator == held?.serial, "asked with the validator of what is not held")
        expect(!isForced || validator == nil, "a forced refresh with a validator")
        fetch = id
        return now()
    }

    func endedFetch(_ id: String, with document: Document?) {
        expect(fetch == id, "\(id) ended, \(fetch ?? "nothing") was under way")
        fetch = nil
        documents[id] = document
    }

    func claimed(_ id: String) { claimed.insert(id) }

    /// Nobody shares a forced refresh: what was published of one has reached the one who asked for it.
    func checkForced() {
        for id in published.subtracting(claimed).sorted() {
            if let document = documents[id], document.serial != nil, document.isForced {
                violated("\(id) is published although its refresh was cancelled")
            }
        }
    }

    /// When a document was published.
    func published(_ id: String?) -> Int { id.flatMap { documents[$0] }?.published ?? 0 }
}
