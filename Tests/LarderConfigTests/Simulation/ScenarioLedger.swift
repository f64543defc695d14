import LarderJSON

@testable import LarderConfigModel

/// Records the events of a scenario and checks them. Only the simulation's thread accesses it.
final class ScenarioLedger {
    /// A document of the remote layer, from a fetch or a push.
    struct Document {
        let version: Int
        /// The serial of the state of the source that was fetched; nil for a push.
        var serial: Int?
        /// Whether the document may replace a newer version.
        let isForced: Bool
        /// Whether the source has delivered the document without a request.
        var isDelivery = false
        /// When the fetch or the push began, or the source made the delivered document, in the time of the ledger, which advances with each call of ``now()``.
        let began: Int
        /// When the document was published, in the time of the ledger; 0 if it was not.
        var published = 0
        /// Whether the push failed.
        var hasFailed = false
    }

    /// The first five violations.
    private(set) var violations: [String] = []
    /// The number of commands and edits of each kind.
    private(set) var counts: [String: Int] = [:]
    private(set) var documents: [String: Document] = [:]
    /// The values of `set` commands that failed.
    private var failedValues: Set<Int> = []

    private var moment = 0
    private var lastID = 0
    private var revision = 0
    private var snapshots: [Int: JSONValue] = [:]
    /// The IDs of the documents that were ever in a snapshot.
    private var published: Set<String> = []
    /// The values of `set` commands that were ever in a snapshot.
    private var publishedValues: Set<Int> = []
    /// The IDs of the documents that forced refreshes returned to their callers, or would have if the source had not been
    /// replaced.
    private var claimed: Set<String> = []
    /// The ID of the current remote document.
    private var remote: String?
    private var remoteSince = 0
    /// The versions of earlier remote documents, each with the moment at which it was replaced.
    private var replacedVersions: [(version: Int, until: Int)] = []
    private var host = 0
    /// The ID of the running fetch.
    private(set) var fetch: String?
    /// The ID of the fetch that ended last.
    private var lastFetch: String?

    func addViolation(_ message: String) { if violations.count < 5 { violations.append(message) } }

    func expect(_ condition: Bool, _ message: @autoclosure () -> String) {
        if !condition { addViolation(message()) }
    }

    func count(_ kind: String) { counts[kind, default: 0] += 1 }

    /// Advances the time of the ledger and returns it.
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

    /// Checks the current snapshot. It is called after each job, so that it misses no publication.
    func observe(_ snapshot: ConfigSnapshot) {
        if snapshot.revision == revision { return }
        expect(snapshot.revision > revision, "revision \(snapshot.revision) after \(revision)")
        revision = snapshot.revision
        snapshots[revision] = snapshot.value
        let newHost = snapshot.value["host"]?.int ?? 0
        expect(newHost >= host, "host content \(newHost) after \(host)")
        host = newHost
        for (key, value) in snapshot.value["set"]?.members.map({ ($0.name, $0.value) }) ?? [] {
            expect(!failedValues.contains(value.int ?? 0), "set.\(key) is \(value), whose command failed")
            publishedValues.insert(value.int ?? 0)
        }
        let id = snapshot.value["remote"]?.string
        if id != remote { remoteChanged(to: id) }
    }

    private func remoteChanged(to id: String?) {
        guard let id, let new = documents[id] else {
            return addViolation("\(id ?? "nothing") replaced \(remote ?? "")")
        }
        published.insert(id)
        expect(!new.hasFailed, "\(id) is published, but its push failed")
        expect(fetch == nil, "\(id) was applied during the fetch \(fetch ?? "")")
        if let remote, let old = documents[remote] {
            expect(
                new.isForced || new.version >= old.version,
                "\(id), version \(new.version), replaced \(remote), version \(old.version)")
            replacedVersions.append((old.version, now()))
        }
        if new.serial != nil, !new.isDelivery {
            expect(
                new.began > remoteSince, "\(id) was applied after \(remote ?? ""), which was applied during its fetch")
        }
        remote = id
        remoteSince = now()
        documents[id]?.published = remoteSince
    }

    /// The ID of the remote document in a revision.
    func remote(in revision: Int) -> String? { snapshots[revision]?["remote"]?.string }

    func value(_ path: JSONPath, in revision: Int) -> JSONValue? { snapshots[revision]?.value(at: path) }

    /// The current remote document.
    var current: Document? { remote.flatMap { documents[$0] } }

    /// Whether a document with a newer version was current at any time since `moment`.
    func wasOutdated(_ version: Int, since moment: Int) -> Bool {
        if let current, current.version > version { return true }
        return replacedVersions.contains { $0.until >= moment && $0.version > version }
    }

    // MARK: Commands

    func push(_ id: String, version: Int, isForced: Bool) {
        documents[id] = Document(version: version, isForced: isForced, began: now())
    }

    /// Records that a push failed.
    func failed(_ id: String) {
        documents[id]?.hasFailed = true
        expect(remote != id, "\(id) is current, but its push failed")
        expect(!published.contains(id), "\(id) was published, but its push failed")
    }

    /// Records that a `set` failed.
    func failed(_ value: Int, at path: JSONPath) {
        failedValues.insert(value)
        expect(!publishedValues.contains(value), "\(path) was set to \(value), but the command failed")
    }

    // MARK: Fetches

    /// Records that a fetch has begun.
    /// - Parameter validator: the serial in the validator of the request
    /// - Returns: the time of the ledger
    func beganFetch(_ id: String, validator: Int?, isForced: Bool) -> Int {
        expect(fetch == nil, "\(id) began during \(fetch ?? "")")
        expect(validator == nil || validator == current?.serial, "a request with the validator of another document")
        expect(!isForced || validator == nil, "a forced refresh has a validator")
        fetch = id
        return now()
    }

    func endedFetch(_ id: String, with document: Document?) {
        expect(fetch == id, "\(id) ended, but \(fetch ?? "nothing") was running")
        fetch = nil
        documents[id] = document
        lastFetch = id
    }

    /// Records that the replacement of the source begins or ends. A forced refresh whose document is published meanwhile
    /// runs again, and its caller gets the document of the new source.
    func replacesSource() {
        for id in [fetch, lastFetch] { if let id { claimed.insert(id) } }
    }

    /// Records that the source has delivered a document.
    func delivered(_ id: String, _ document: Document) { documents[id] = document }

    func claimed(_ id: String) { claimed.insert(id) }

    /// Checks that each published document of a forced refresh was returned to the caller. Forced refreshes are not
    /// shared. A document that no caller got therefore belongs to a cancelled refresh, and its publication is a
    /// violation.
    func checkForced() {
        for id in published.subtracting(claimed).sorted() {
            if let document = documents[id], document.serial != nil, document.isForced {
                addViolation("\(id) is published although its refresh was cancelled")
            }
        }
    }

    /// When a document was published; 0 if it was not.
    func published(_ id: String?) -> Int { id.flatMap { documents[$0] }?.published ?? 0 }
}
